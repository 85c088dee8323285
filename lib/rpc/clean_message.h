// SPDX-License-Identifier: Apache-2.0
//
// Messages of others, made fit to be shown.
#pragma once

#include <google/protobuf/message.h>

namespace ask {

// Makes every string in it, however deep, one of clean_text(). Fields of bytes stay as they are.
void clean_strings(google::protobuf::Message& message);

}  // namespace ask
