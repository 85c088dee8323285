# SPDX-License-Identifier: Apache-2.0
#
# The deepest chain of calls in a BPF object, as Linux 6.1 counts it: each frame's stack rounded up to 32 bytes (16 since
# 6.8), all of a chain's at most 512 bytes, whatever part of it is ever run. Reads `llvm-objdump --disassemble --reloc
# --no-show-raw-insn` and prints "BYTES FUNCTION BYTES > FUNCTION BYTES...".

# The number after the last minus sign of an operand such as "r10 - 0x48" or "r2 += -72".
function number_in(text, digits, value, i) {
    sub(/.*- */, "", text)
    if (text !~ /^0x/) return text + 0
    digits = tolower(substr(text, 3))
    for (i = 1; i <= length(digits); i++) value = value * 16 + index("0123456789abcdef", substr(digits, i, 1)) - 1
    return value
}

# The frame pointer is used as it is, or copied to a register and lowered there.
function uses(text, bytes) {
    bytes = number_in(text)
    if (bytes > depth[function_name]) depth[function_name] = bytes
}

/^[0-9a-f]+ <[A-Za-z_0-9]+>:$/ {
    function_name = substr($2, 2, length($2) - 3)
    if (function_name !~ /^LBB/) functions[++count] = function_name
    next
}
/R_BPF_64_32/ { calls[function_name] = calls[function_name] " " $NF; next }
match($0, /r10 - (0x)?[0-9a-f]+/) { uses(substr($0, RSTART, RLENGTH)) }
match($0, /r[0-9] = r10$/) { copies[substr($0, RSTART, 2)] = 1; next }
match($0, /r[0-9] \+= -(0x)?[0-9a-f]+$/) && substr($0, RSTART, 2) in copies {
    uses(substr($0, RSTART, RLENGTH))
    delete copies[substr($0, RSTART, 2)]
}

function frame(name, bytes) {
    bytes = depth[name] > 0 ? depth[name] : 1
    return int((bytes + 31) / 32) * 32
}

function walk(name, sum, chain, called, n, i) {
    sum += frame(name)
    chain = (chain == "" ? "" : chain " > ") name " " frame(name)
    if (sum > deepest) {
        deepest = sum
        deepest_chain = chain
    }
    n = split(calls[name], called, " ")
    for (i = 1; i <= n; i++) walk(called[i], sum, chain)
}

END {
    for (f = 1; f <= count; f++) walk(functions[f], 0, "")
    print deepest + 0, deepest_chain
}
