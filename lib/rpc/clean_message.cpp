// SPDX-License-Identifier: Apache-2.0
#include "lib/rpc/clean_message.h"

#include <string>
#include <vector>

#include <google/protobuf/descriptor.h>

#include "lib/text/clean.h"

namespace ask {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

void clean_repeated(Message& message, const Reflection& reflection, const FieldDescriptor* field) {
    for (int i = 0; i < reflection.FieldSize(message, field); ++i) {
        if (field->type() == FieldDescriptor::TYPE_STRING) {
            reflection.SetRepeatedString(&message, field, i,
                                         clean_text(reflection.GetRepeatedString(message, field, i)));
        } else {
            clean_strings(*reflection.MutableRepeatedMessage(&message, field, i));
        }
    }
}

}  // namespace

// As deep as a parser goes, which is 100.
void clean_strings(Message& message) {
    const Reflection& reflection = *message.GetReflection();
    std::vector<const FieldDescriptor*> fields;
    reflection.ListFields(message, &fields);
    for (const FieldDescriptor* field : fields) {
        const bool is_string = field->type() == FieldDescriptor::TYPE_STRING;
        if (!is_string && field->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE) {
            continue;
        }
        if (field->is_repeated()) {
            clean_repeated(message, reflection, field);
        } else if (is_string) {
            reflection.SetString(&message, field, clean_text(reflection.GetString(message, field)));
        } else {
            clean_strings(*reflection.MutableMessage(&message, field));
        }
    }
}

}  // namespace ask
