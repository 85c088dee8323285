// SPDX-License-Identifier: Apache-2.0
#include "tools/cli/to_json.h"

#include <array>
#include <cctype>
#include <cstdint>
#include <cstdio>

#include <google/protobuf/message.h>

#include "lib/net/host_book.h"
#include "tools/cli/names.h"

namespace ask::cli {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

Json scalar(const Message& message, const FieldDescriptor& field) {
    const auto& reflection = *message.GetReflection();
    switch (field.cpp_type()) {
        case FieldDescriptor::CPPTYPE_BOOL:
            return reflection.GetBool(message, &field);
        case FieldDescriptor::CPPTYPE_INT32:
            return reflection.GetInt32(message, &field);
        case FieldDescriptor::CPPTYPE_INT64:
            return reflection.GetInt64(message, &field);
        case FieldDescriptor::CPPTYPE_UINT32:
            // Every fixed32 is the number of a host.
            if (field.type() == FieldDescriptor::TYPE_FIXED32) {
                return format_host(reflection.GetUInt32(message, &field));
            }
            return reflection.GetUInt32(message, &field);
        case FieldDescriptor::CPPTYPE_UINT64:
            if (field.name() == "instance" || field.name() == "plan" || field.name() == "member") {
                return instance_text(reflection.GetUInt64(message, &field));
            }
            return reflection.GetUInt64(message, &field);
        case FieldDescriptor::CPPTYPE_DOUBLE:
            return reflection.GetDouble(message, &field);
        case FieldDescriptor::CPPTYPE_FLOAT:
            return reflection.GetFloat(message, &field);
        case FieldDescriptor::CPPTYPE_ENUM:
            return enum_text(*reflection.GetEnum(message, &field));
        case FieldDescriptor::CPPTYPE_STRING:
            return reflection.GetString(message, &field);
        case FieldDescriptor::CPPTYPE_MESSAGE:
            return to_json(reflection.GetMessage(message, &field));
    }
    return nullptr;
}

// Lists in our status messages hold messages, strings or counts.
Json element(const Message& message, const FieldDescriptor& field, int index) {
    const auto& reflection = *message.GetReflection();
    switch (field.cpp_type()) {
        case FieldDescriptor::CPPTYPE_MESSAGE:
            return to_json(reflection.GetRepeatedMessage(message, &field, index));
        case FieldDescriptor::CPPTYPE_UINT64:
            return reflection.GetRepeatedUInt64(message, &field, index);
        case FieldDescriptor::CPPTYPE_UINT32:
            return reflection.GetRepeatedUInt32(message, &field, index);
        case FieldDescriptor::CPPTYPE_STRING:
            return reflection.GetRepeatedString(message, &field, index);
        default:
            return nullptr;
    }
}

constexpr const char* kSeal = "sum";

// FNV-1a, by which one byte that is another gives another sum. Of a text that whitespace is not in.
std::string seal_of(const Json& json) {
    std::uint64_t hash = 0xcbf29ce484222325;
    for (const char byte : json.dump(-1, ' ', false, Json::error_handler_t::replace)) {
        hash = (hash ^ static_cast<unsigned char>(byte)) * 0x100000001b3;
    }
    return instance_text(hash);
}

}  // namespace

Json to_json(const Message& message) {
    Json json = Json::object();
    const auto& descriptor = *message.GetDescriptor();
    for (int i = 0; i < descriptor.field_count(); ++i) {
        const FieldDescriptor& field = *descriptor.field(i);
        // What numbers of hosts mean, and is shown in their place.
        if (field.name() == "hosts6") {
            continue;
        }
        if (!field.is_repeated()) {
            json[field.name()] = scalar(message, field);
            continue;
        }
        Json list = Json::array();
        for (int j = 0; j < message.GetReflection()->FieldSize(message, &field); ++j) {
            list.push_back(element(message, field, j));
        }
        json[field.name()] = std::move(list);
    }
    return json;
}

std::string sealed(Json json) {
    const std::string seal = seal_of(json);
    json[kSeal] = seal;
    return json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

bool is_sealed(Json json) {
    if (!json.is_object() || !json.contains(kSeal)) {
        return false;
    }
    const Json seal = json.at(kSeal);
    json.erase(kSeal);
    return seal == seal_of(json);
}

std::string damage_of(const std::string& text) {
    if (text.find_first_not_of(" \t\r\n") == std::string::npos) {
        return "is empty";
    }
    return Json::accept(text) ? "lacks something, or has something that was not written there"
                              : "ends in the middle, or was never written by this command";
}

std::string dump(const Json& json) {
    return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace ask::cli
