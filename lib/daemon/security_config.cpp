// SPDX-License-Identifier: Apache-2.0
#include "lib/daemon/security_config.h"

#include <ctime>

#include <spdlog/spdlog.h>

#include "lib/net/address.h"

namespace ask {
namespace {

Result<> check_metrics_address(std::string_view text) {
    return text.empty() ? Result<>() : check_host_port(text);
}

constexpr std::time_t kWarnBefore = 14L * 24 * 3600;

}  // namespace

RpcSecurity SecurityConfig::rpc() const {
    return {.plain_text = plain_text_from(plain_text),
            .files = {.ca = tls_ca, .certificate = tls_certificate, .key = tls_key}};
}

Result<> SecurityConfig::check_metrics() const {
    if (metrics.empty() || metrics_open || is_loopback(metrics)) {
        return {};
    }
    return Error(Errc::kDenied, "metrics: " + metrics +
                                    " is not loopback, and whoever reaches it may read: listen at "
                                    "127.0.0.1, or say metrics_open = true");
}

void declare_security(ConfigTable& table, SecurityConfig* config) {
    table.text("tls_ca", &config->tls_ca, "certificate of the CA that has signed everybody's, PEM");
    table.text("tls_certificate", &config->tls_certificate, "own certificate, PEM (askctl ca issue)");
    table.text("tls_key", &config->tls_key, "its key, PEM, which nobody else may read");
    table.choice("plain_text", &config->plain_text, {"never", "loopback", "everywhere"},
                 "where gRPC does without TLS: everybody who gets there may then do anything");
    table.text("metrics", &config->metrics, "HOST:PORT that serves Prometheus text over HTTP; empty: none",
               check_metrics_address);
    table.boolean("metrics_open", &config->metrics_open,
                  "let `metrics` be an address that is not loopback: whoever reaches it may read");
    table.boolean("metrics_tasks", &config->metrics_tasks, "metrics name tasks");
}

void refresh_credentials(RpcCredentials& credentials) {
    const auto fresh = credentials.refresh();
    if (!fresh.ok()) {
        spdlog::error("{}; the certificate of before stays in force", fresh.error().text());
    } else if (*fresh) {
        spdlog::info("certificate read again: good until {}", credentials.identity()->expires_text());
    }
}

void log_credentials(const RpcCredentials& credentials) {
    const auto identity = credentials.identity();
    if (!identity) {
        spdlog::warn("plain text: whoever reaches the control port may do anything");
    } else if (identity->expires - std::time(nullptr) < kWarnBefore) {
        spdlog::warn("the certificate ends on {}: issue a new one (askctl ca issue)",
                     identity->expires_text());
    } else {
        spdlog::info("certificate good until {}", identity->expires_text());
    }
}

}  // namespace ask
