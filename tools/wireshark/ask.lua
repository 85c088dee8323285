-- SPDX-License-Identifier: Apache-2.0
--
-- ASK's packets for Wireshark and tshark (4.0 or later): every type of docs/protocol.md, tuples and records in full, which
-- packet acknowledges which, and what was sent again.
--
--     tshark -X lua_script:tools/wireshark/ask.lua -r capture.pcap
--     cp tools/wireshark/ask.lua ~/.local/lib/wireshark/plugins/        for Wireshark
--
-- It takes UDP port 4790 from VXLAN-GPE. The check is shown, not verified: that needs the flow's secret.

local PORT = 4790
local VERSION = 0xA5
local HEADER_BYTES = 48
local VALUES_EXTENSION_BYTES = 16
local BLOCK_BYTES = 64
local SLOT_BYTES = 8
local MOST_ROWS = 32

local DATA, LONG, ACK, FIN, VAR, VALUE, RESULT, NEED, HELD, HAVE = 1, 2, 3, 4, 5, 16, 17, 18, 19, 20
local TYPES = {
    [DATA] = "DATA", [LONG] = "LONG", [ACK] = "ACK", [FIN] = "FIN", [VAR] = "VAR",
    [VALUE] = "VALUE", [RESULT] = "RESULT", [NEED] = "NEED", [HELD] = "HELD", [HAVE] = "HAVE",
}
local OPERATORS = { [1] = "SUM", [2] = "MIN", [3] = "MAX" }
local VALUE_OPERATORS = {
    [0] = "ADD64", [1] = "ADD32", [2] = "MIN32", [3] = "MAX32", [4] = "AND64", [5] = "OR64", [6] = "XOR64",
}
local LEVELS = { [0] = "member's", [1] = "switch's partial", [2] = "result" }

local ask = Proto("ask", "In-network aggregation (ASK)")

local f = {
    version = ProtoField.uint8("ask.version", "Version", base.HEX),
    type = ProtoField.uint8("ask.type", "Type", base.DEC, TYPES),
    flags = ProtoField.uint8("ask.flags", "Flags", base.HEX),
    ece = ProtoField.bool("ask.flags.ece", "ECE: congestion was met", 8, nil, 0x01),
    resend = ProtoField.bool("ask.flags.resend", "RESEND: a repeat", 8, nil, 0x02),
    alone = ProtoField.bool("ask.flags.alone", "ALONE: not for switches", 8, nil, 0x04),
    group_flag = ProtoField.bool("ask.flags.group", "GROUP: to all members", 8, nil, 0x08),
    collided = ProtoField.bool("ask.flags.collided", "COLLIDED: its slot was another's", 8, nil, 0x10),
    range = ProtoField.bool("ask.flags.range", "RANGE: a value was out of range", 8, nil, 0x20),
    rows = ProtoField.uint8("ask.rows", "Rows (bitmaps)"),
    short_slots = ProtoField.uint8("ask.geometry.short_slots", "Short slots a row"),
    groups = ProtoField.uint8("ask.geometry.groups", "Medium slots a row"),
    m = ProtoField.uint8("ask.geometry.m", "Words of a medium slot"),
    op = ProtoField.uint8("ask.operator", "Operator", base.DEC, OPERATORS),
    task = ProtoField.uint64("ask.task", "Task instance", base.HEX),
    host = ProtoField.ipv4("ask.channel.host", "Channel's host"),
    port = ProtoField.uint16("ask.channel.port", "Channel's port"),
    incarnation = ProtoField.uint32("ask.channel.incarnation", "Channel's incarnation", base.HEX),
    mark_switch = ProtoField.uint16("ask.mark.switch", "Mark: switch (0: none)"),
    mark_incarnation = ProtoField.uint32("ask.mark.incarnation", "Mark: incarnation of the switch", base.HEX),
    seq = ProtoField.uint64("ask.seq", "Seq"),
    check = ProtoField.uint64("ask.check", "Check (not verified)", base.HEX),
    bitmap = ProtoField.uint32("ask.bitmap", "Bitmap", base.HEX),
    tuple = ProtoField.string("ask.tuple", "Tuple"),
    key = ProtoField.bytes("ask.tuple.key", "Key"),
    key_text = ProtoField.string("ask.tuple.key_text", "Key as text"),
    value = ProtoField.int64("ask.tuple.value", "Value"),
    row = ProtoField.uint16("ask.tuple.row", "Row"),
    slot = ProtoField.uint16("ask.tuple.slot", "Slot"),
    tuples = ProtoField.uint32("ask.tuples", "Tuples in this packet"),
    var_count = ProtoField.uint8("ask.var.count", "Records"),
    long_count = ProtoField.uint16("ask.long.count", "Records"),
    long_piece = ProtoField.uint16("ask.long.piece", "Piece"),
    long_pieces = ProtoField.uint16("ask.long.pieces", "Pieces (0: whole records)"),
    long_offset = ProtoField.uint16("ask.long.offset", "Offset in the key"),
    fin_items = ProtoField.uint64("ask.fin.items", "Tuples that the flow has carried"),
    blocks = ProtoField.uint8("ask.values.blocks", "Payload in blocks of 64 bytes"),
    stream = ProtoField.uint8("ask.values.stream", "Stream"),
    level = ProtoField.uint8("ask.values.level", "Level", base.DEC, LEVELS),
    value_op = ProtoField.uint8("ask.values.operator", "Operator", base.DEC, VALUE_OPERATORS),
    bits = ProtoField.uint64("ask.values.bits", "Members", base.HEX),
    members = ProtoField.string("ask.values.members", "Members by rank"),
    shape = ProtoField.uint32("ask.values.shape", "Shape of the operation", base.HEX),
    count = ProtoField.uint32("ask.values.count", "Members in the set"),
    payload = ProtoField.bytes("ask.values.payload", "Lanes, little-endian"),
    acks = ProtoField.framenum("ask.acks", "Acknowledges the packet in", base.NONE, frametype.ACK),
    acked_in = ProtoField.framenum("ask.acked_in", "Acknowledged in", base.NONE, frametype.ACK),
    answer_time = ProtoField.relative_time("ask.answer_time", "Time since the packet was first seen"),
    repeats = ProtoField.framenum("ask.retransmission_of", "Sent before in", base.NONE, frametype.RETRANS_PREV),
}
ask.fields = f

local bad_version = ProtoExpert.new("ask.bad_version", "Another version of the packets", expert.group.PROTOCOL,
                                    expert.severity.WARN)
local malformed = ProtoExpert.new("ask.malformed", "Lengths, counts or bitmaps do not fit", expert.group.MALFORMED,
                                  expert.severity.ERROR)
ask.experts = { bad_version, malformed }

-- Frames by channel, task and seq: where a packet was first, and what acknowledges it. Gone with each new capture.
local first_frame, first_time, acked_by
function ask.init()
    first_frame, first_time, acked_by = {}, {}, {}
end

local function complain(tree, text)
    tree:add_proto_expert_info(malformed, text)
end

-- A key's words without their padding: a word of a medium or whole key that is all padding is 0 .. 0 1.
local function key_bytes(range, word_bytes)
    local bytes = range:bytes()
    local length = bytes:len()
    local function is_padding(at)
        for i = 0, word_bytes - 2 do
            if bytes:get_index(at + i) ~= 0 then
                return false
            end
        end
        return bytes:get_index(at + word_bytes - 1) == 1
    end
    while length > word_bytes and is_padding(length - word_bytes) do
        length = length - word_bytes
    end
    while length > 0 and bytes:get_index(length - 1) == 0 do
        length = length - 1
    end
    return length == 0 and ByteArray.new() or bytes:subset(0, length)
end

local function readable(bytes)
    local text = bytes:raw()
    return (text:gsub("[^\32-\126]", function(c)
        return string.format("\\x%02x", c:byte())
    end))
end

local function add_tuple(tree, range, key, value_range, value, where)
    local text = readable(key)
    local item = tree:add(f.tuple, range, text .. " = " .. tostring(value))
    if key:len() > 0 then
        item:add(f.key, range, key:raw())
    end
    item:add(f.key_text, range, text):set_generated()
    item:add(f.value, value_range, value)
    for field, number in pairs(where or {}) do
        item:add(f[field], number):set_generated()
    end
end

-- Rows of DATA: those up to the last whose bitmap is not 0, or all that the sender filled.
local function dissect_rows(body, geometry, bitmaps, tree)
    local row_bytes = (geometry.short + geometry.groups * geometry.m) * SLOT_BYTES
    local tuples, at = 0, 0
    if row_bytes == 0 or body:len() % row_bytes ~= 0 or body:len() > row_bytes * #bitmaps then
        complain(tree, body:len() .. " bytes are no rows of " .. row_bytes .. " bytes each, " .. #bitmaps .. " at most")
        return 0
    end
    for row, bitmap in ipairs(bitmaps) do
        if at == body:len() then
            if bitmap ~= 0 then
                complain(tree, "row " .. row - 1 .. " has a bitmap and is not there")
            end
            goto continue
        end
        do
            local slot_at = at
            for slot = 0, geometry.short + geometry.groups - 1 do
                local words = slot < geometry.short and 1 or geometry.m
                local range = body:range(slot_at, words * SLOT_BYTES)
                if bit32.btest(bit32.rshift(bitmap, slot), 1) then
                    local key = ByteArray.new()
                    for word = 0, words - 1 do
                        key = key .. range(word * SLOT_BYTES, 4):bytes()
                    end
                    local value_range = range(words * SLOT_BYTES - 4, 4)
                    add_tuple(tree, range, key_bytes(key:tvb("Key")():range(), 4), value_range,
                              Int64.new(value_range:int()), { row = row - 1, slot = slot })
                    tuples = tuples + 1
                end
                slot_at = slot_at + words * SLOT_BYTES
            end
            if bit32.rshift(bitmap, geometry.short + geometry.groups) ~= 0 then
                complain(tree, "the bitmap of row " .. row - 1 .. " has bits beyond its slots")
            end
            at = at + row_bytes
        end
        ::continue::
    end
    return tuples
end

local function dissect_var(body, bitmaps, tree)
    if body:len() < 8 then
        complain(tree, "no room for the counts of the groups")
        return 0
    end
    local at, record, tuples = 8, 0, 0
    for group = 0, 3 do
        local count = body:range(group, 1):uint()
        tree:add(f.var_count, body:range(group, 1)):append_text(" of keys of up to " .. bit32.lshift(8, group) .. " bytes")
        local bytes = 8 + bit32.lshift(8, group)
        for _ = 1, count do
            if at + bytes > body:len() then
                complain(tree, "record " .. record .. " is not all there")
                return tuples
            end
            local bitmap = bitmaps[math.floor(record / 32) + 1] or 0
            if bit32.btest(bit32.rshift(bitmap, record % 32), 1) then
                local range = body:range(at, bytes)
                add_tuple(tree, range, key_bytes(range(8), 8), range(0, 8), range(0, 8):int64(), { slot = record })
                tuples = tuples + 1
            end
            at = at + bytes
            record = record + 1
        end
    end
    if at ~= body:len() then
        complain(tree, body:len() - at .. " bytes behind the last record")
    end
    return tuples
end

local function dissect_long(body, tree)
    if body:len() < 8 then
        complain(tree, "no room for LONG's own header")
        return 0
    end
    local count, pieces = body:range(0, 2):uint(), body:range(4, 2):uint()
    tree:add(f.long_count, body:range(0, 2))
    tree:add(f.long_piece, body:range(2, 2))
    tree:add(f.long_pieces, body:range(4, 2))
    local front = pieces == 0 and 10 or 14
    local at = 8
    for record = 1, count do
        if at + front > body:len() then
            complain(tree, "record " .. record - 1 .. " is not all there")
            return record - 1
        end
        local length = body:range(at + (pieces == 0 and 8 or 12), 2):uint()
        if at + front + length > body:len() then
            complain(tree, "the key of record " .. record - 1 .. " is not all there")
            return record - 1
        end
        local range = body:range(at, front + length)
        local key = length == 0 and ByteArray.new() or range(front, length):bytes()
        add_tuple(tree, range, key, range(0, 8), range(0, 8):int64(),
                  pieces ~= 0 and { long_offset = range(10, 2):uint() } or nil)
        at = at + front + length
    end
    return count
end

local function ranks(bits)
    local found = {}
    for rank = 0, 63 do
        if bits:rshift(rank):band(1):tonumber() == 1 then
            found[#found + 1] = tostring(rank)
        end
    end
    return table.concat(found, " ")
end

local function dissect_flags(range, tree, of_values)
    local item = tree:add(f.flags, range)
    item:add(f.ece, range)
    if of_values then
        for _, name in ipairs({ "resend", "alone", "group_flag", "collided", "range" }) do
            item:add(f[name], range)
        end
    end
end

-- What every packet's header has but its types' own bytes 3 to 7.
local function dissect_header(buffer, tree)
    tree:add(f.task, buffer(8, 8))
    tree:add(f.host, buffer(16, 4))
    tree:add(f.port, buffer(20, 2))
    tree:add(f.mark_switch, buffer(22, 2))
    tree:add(f.incarnation, buffer(24, 4))
    tree:add(f.mark_incarnation, buffer(28, 4))
    tree:add(f.seq, buffer(32, 8))
    tree:add(f.check, buffer(40, 8))
end

-- Which packet this one answers, was answered by, or repeats.
local function follow(buffer, pinfo, tree, type)
    local id = buffer(8, 8):bytes():tohex() .. buffer(16, 6):bytes():tohex() .. buffer(24, 4):bytes():tohex() ..
                   buffer(32, 8):bytes():tohex()
    if type == ACK then
        if not pinfo.visited and not acked_by[id] then
            acked_by[id] = pinfo.number
        end
        if first_frame[id] and first_frame[id] < pinfo.number then
            tree:add(f.acks, first_frame[id]):set_generated()
            local seconds = pinfo.abs_ts - first_time[id]
            local whole = math.floor(seconds)
            tree:add(f.answer_time, NSTime.new(whole, math.floor((seconds - whole) * 1e9))):set_generated()
        end
        return
    end
    if not pinfo.visited and not first_frame[id] then
        first_frame[id], first_time[id] = pinfo.number, pinfo.abs_ts
    end
    if first_frame[id] and first_frame[id] < pinfo.number then
        tree:add(f.repeats, first_frame[id]):set_generated()
    end
    if acked_by[id] and acked_by[id] > pinfo.number then
        tree:add(f.acked_in, acked_by[id]):set_generated()
    end
end

local function dissect_values(buffer, pinfo, tree, type)
    local blocks, stream = buffer(4, 1):uint(), buffer(5, 1):uint()
    dissect_flags(buffer(2, 1), tree, true)
    tree:add(f.blocks, buffer(4, 1))
    tree:add(f.stream, buffer(5, 1))
    tree:add(f.level, buffer(6, 1))
    tree:add(f.value_op, buffer(7, 1))
    dissect_header(buffer, tree)
    local bytes = HEADER_BYTES + VALUES_EXTENSION_BYTES + blocks * BLOCK_BYTES
    if buffer:len() ~= bytes or buffer(3, 1):uint() ~= 4 then
        complain(tree, "a payload of " .. buffer:len() .. " bytes, and it should have " .. bytes)
        return ""
    end
    local bits = buffer(48, 8):uint64()
    local members = ranks(bits)
    tree:add(f.bits, buffer(48, 8))
    tree:add(f.members, buffer(48, 8), members):set_generated()
    tree:add(f.shape, buffer(56, 4))
    tree:add(f.count, buffer(60, 4))
    if blocks > 0 then
        tree:add(f.payload, buffer(64, blocks * BLOCK_BYTES))
    end
    local missing = type == NEED or type == HELD
    return string.format(" Stream=%d %s of %s, %d blocks", stream, missing and "Missing" or "Set", "{" .. members .. "}",
                         blocks)
end

local function dissect_tuples(buffer, tree, type)
    local rows = buffer(3, 1):uint()
    local geometry = { short = buffer(4, 1):uint(), groups = buffer(5, 1):uint(), m = buffer(6, 1):uint() }
    dissect_flags(buffer(2, 1), tree, false)
    tree:add(f.rows, buffer(3, 1))
    tree:add(f.short_slots, buffer(4, 1))
    tree:add(f.groups, buffer(5, 1))
    tree:add(f.m, buffer(6, 1))
    tree:add(f.op, buffer(7, 1))
    dissect_header(buffer, tree)
    local at = HEADER_BYTES + rows * 4
    if rows > MOST_ROWS or at > buffer:len() then
        complain(tree, rows .. " bitmaps are not all there")
        return ""
    end
    local bitmaps = {}
    for row = 0, rows - 1 do
        tree:add(f.bitmap, buffer(HEADER_BYTES + row * 4, 4))
        bitmaps[row + 1] = buffer(HEADER_BYTES + row * 4, 4):uint()
    end
    if type == ACK or (type == FIN and buffer:len() == at) then
        return ""
    end
    local body = at < buffer:len() and buffer:range(at):tvb() or ByteArray.new():tvb("Empty")
    if type == FIN then
        if body:len() ~= 8 then
            complain(tree, "a FIN has one word behind its header")
            return ""
        end
        tree:add(f.fin_items, body(0, 8))
        return " Items=" .. tostring(body(0, 8):uint64())
    end
    local tuples
    if type == DATA then
        tuples = dissect_rows(body, geometry, bitmaps, tree)
    elseif type == VAR then
        tuples = dissect_var(body, bitmaps, tree)
    else
        tuples = dissect_long(body, tree)
    end
    tree:add(f.tuples, tuples):set_generated()
    return " Tuples=" .. tuples
end

function ask.dissector(buffer, pinfo, root)
    pinfo.cols.protocol = "ASK"
    if buffer:len() < HEADER_BYTES then
        local tree = root:add(ask, buffer())
        complain(tree, "shorter than a header")
        pinfo.cols.info = "Malformed: shorter than a header"
        return buffer:len()
    end
    local version, type = buffer(0, 1):uint(), buffer(1, 1):uint()
    local name = TYPES[type] or ("type " .. type)
    local tree = root:add(ask, buffer(), "In-network aggregation, " .. name)
    tree:add(f.version, buffer(0, 1))
    tree:add(f.type, buffer(1, 1))
    if version ~= VERSION then
        tree:add_proto_expert_info(bad_version, string.format("version 0x%02x; this script knows 0x%02x", version, VERSION))
        pinfo.cols.info = string.format("Version 0x%02x", version)
        return buffer:len()
    end
    local text = ""
    if type >= VALUE and type <= HAVE then
        text = dissect_values(buffer, pinfo, tree, type)
    elseif TYPES[type] then
        text = dissect_tuples(buffer, tree, type)
        follow(buffer, pinfo, tree, type)
    else
        dissect_header(buffer, tree)
        complain(tree, "no such type")
    end
    pinfo.cols.info = string.format("%s Task=%s Seq=%s%s", name, buffer(8, 8):bytes():tohex(true),
                                    tostring(buffer(32, 8):uint64()), text)
    return buffer:len()
end

DissectorTable.get("udp.port"):add(PORT, ask)
