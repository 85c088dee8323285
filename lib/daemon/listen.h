// SPDX-License-Identifier: Apache-2.0
//
// Where daemons listen; and why one cannot, which the HTTP server of the metrics does not say.
#pragma once

#include <sys/types.h>

#include <string>

#include "lib/base/result.h"
#include "lib/base/unique_fd.h"

namespace ask {

// Tries whether a TCP server may listen at `address` (HOST:PORT), which the option `key` names. kExists: the
// port is in use. kUnknown: the address is not this machine's, or the name does not resolve. kDenied: the
// port is privileged.
Result<> check_listen(const std::string& key, const std::string& address);
// The same, and listens: the socket does not block.
Result<UniqueFd> listen_tcp(const std::string& key, const std::string& address);

// For a socket in the file system.
Result<> make_socket_directory(const std::string& socket);
// The group of that name or number; the process's own if it is empty. `socket_group` names it.
Result<gid_t> socket_group(const std::string& name);
// A listening socket (SOCK_STREAM) in the file system, for the members of `group`. A file that a dead daemon
// left is replaced; kExists: a live one answers there.
Result<UniqueFd> listen_local(const std::string& path, gid_t group);

}  // namespace ask
