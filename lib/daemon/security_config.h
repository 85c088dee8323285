// SPDX-License-Identifier: Apache-2.0
//
// What both daemons are told of who may speak to them.
#pragma once

#include <string>

#include "lib/daemon/config.h"
#include "lib/rpc/credentials.h"

namespace ask {

struct SecurityConfig {
    std::string tls_ca = "/etc/ask/tls/ca.pem";
    std::string tls_certificate = "/etc/ask/tls/certificate.pem";
    std::string tls_key = "/etc/ask/tls/key.pem";
    std::string plain_text = "never";
    // Of the metrics, which anybody may read who reaches them.
    std::string metrics;  // HOST:PORT of Prometheus text; empty: none
    bool metrics_open = false;
    bool metrics_tasks = false;

    [[nodiscard]] RpcSecurity rpc() const;
    // kDenied: an address that is not loopback, and nobody has said that it may be.
    [[nodiscard]] Result<> check_metrics() const;
};

void declare_security(ConfigTable& table, SecurityConfig* config);

// At the start: until when the certificate is good, or that there is none.
void log_credentials(const RpcCredentials& credentials);
// Has the files read again if they have changed, and tells the log what came of it.
void refresh_credentials(RpcCredentials& credentials);

}  // namespace ask
