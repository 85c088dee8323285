// SPDX-License-Identifier: Apache-2.0
#include "lib/rpc/hosts6.h"

#include <algorithm>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include <google/protobuf/descriptor.h>

#include "lib/rpc/hosts6_parts.h"

namespace ask {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

constexpr const char* kHosts6 = "hosts6";

// Every fixed32 of our interfaces is the number of a host.
class Ipv6Numbers {
 public:
    explicit Ipv6Numbers(const Message& message) { collect(message); }
    [[nodiscard]] const std::set<std::uint32_t>& all() const { return all_; }

 private:
    // As deep as a parser goes, which is 100.
    void collect(const Message& message) {
        const Reflection& reflection = *message.GetReflection();
        std::vector<const FieldDescriptor*> fields;
        reflection.ListFields(message, &fields);
        for (const FieldDescriptor* field : fields) {
            if (field->type() == FieldDescriptor::TYPE_FIXED32) {
                collect_numbers(message, reflection, field);
            } else if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
                collect_messages(message, reflection, field);
            }
        }
    }
    void collect_messages(const Message& message, const Reflection& reflection,
                          const FieldDescriptor* field) {
        if (!field->is_repeated()) {
            return collect(reflection.GetMessage(message, field));
        }
        for (int i = 0; i < reflection.FieldSize(message, field); ++i) {
            collect(reflection.GetRepeatedMessage(message, field, i));
        }
    }
    void collect_numbers(const Message& message, const Reflection& reflection, const FieldDescriptor* field) {
        if (!field->is_repeated()) {
            return add(reflection.GetUInt32(message, field));
        }
        for (int i = 0; i < reflection.FieldSize(message, field); ++i) {
            add(reflection.GetRepeatedUInt32(message, field, i));
        }
    }
    void add(std::uint32_t number) {
        if (is_ipv6_number(number)) {
            all_.insert(number);
        }
    }

    std::set<std::uint32_t> all_;
};

Result<Ipv6Address> address_in(const std::string& bytes) {
    Ipv6Address address{};
    if (bytes.size() != address.size()) {
        return Error(Errc::kInput, "the IPv6 address of a host in a message has 16 bytes, not " +
                                       std::to_string(bytes.size()));
    }
    std::ranges::transform(bytes, address.begin(), [](char byte) { return static_cast<std::uint8_t>(byte); });
    return address;
}

}  // namespace

Result<> each_host(const Message& message, const std::function<Result<>(const Ipv6Address&)>& visit) {
    const FieldDescriptor* const field = message.GetDescriptor()->FindFieldByName(kHosts6);
    const Reflection& reflection = *message.GetReflection();
    const int hosts = field == nullptr ? 0 : reflection.FieldSize(message, field);
    if (hosts == 0) {
        return {};
    }
    const Ipv6Numbers numbers(message);
    for (int i = 0; i < hosts; ++i) {
        const auto address = address_in(reflection.GetRepeatedString(message, field, i));
        ASK_PASS(address);
        if (!numbers.all().contains(number_of(*address))) {
            return Error(Errc::kInput, "the message names " + format_ipv6(*address) +
                                           ", and no host of that address is in it");
        }
        ASK_PASS(visit(*address));
    }
    return {};
}

Result<> check_explained(const Message& message) {
    const Ipv6Numbers numbers(message);
    for (const std::uint32_t number : numbers.all()) {
        if (!ipv6_of(number)) {
            return Error(Errc::kUnknown, "the message has " + format_host(number) +
                                             " and not its IPv6 address: both ends have to be of a version "
                                             "with IPv6");
        }
    }
    return {};
}

void explain_hosts(Message& message) {
    const Ipv6Numbers numbers(message);
    const FieldDescriptor* const field = message.GetDescriptor()->FindFieldByName(kHosts6);
    for (const std::uint32_t number : numbers.all()) {
        if (const auto address = ipv6_of(number); address && field != nullptr) {
            message.GetReflection()->AddString(&message, field,
                                               std::string(address->begin(), address->end()));
        }
    }
}

Result<> take_hosts(const Message& message) {
    ASK_PASS(each_host(message, [](const Ipv6Address& address) -> Result<> {
        const auto entered = enter_ipv6(address);
        return entered.ok() ? Result<>() : Error(entered.error());
    }));
    return check_explained(message);
}

}  // namespace ask
