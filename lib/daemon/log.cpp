// SPDX-License-Identifier: Apache-2.0
#include "lib/daemon/log.h"

#include <unistd.h>

#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include <bpf/libbpf.h>
#include <google/protobuf/stubs/logging.h>
#include <grpc/support/log.h>
#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include "lib/base/log_fields.h"
#include "lib/daemon/journal.h"
#include "lib/text/clean.h"

namespace ask {
namespace {

constexpr std::size_t kCaptureLimit = 1U << 20U;

struct Capture {
    std::mutex mutex;
    bool on = false;
    std::string text;
};

Capture& capture() {
    static Capture instance;
    return instance;
}

// As syslog(3) counts.
char journal_priority(spdlog::level::level_enum level) {
    switch (level) {
        case spdlog::level::critical:
            return '2';
        case spdlog::level::err:
            return '3';
        case spdlog::level::warn:
            return '4';
        case spdlog::level::info:
            return '6';
        default:
            return '7';
    }
}

// %* in a pattern: the level as the journal reads it, "<6>" for info.
class JournalPriority : public spdlog::custom_flag_formatter {
 public:
    void format(const spdlog::details::log_msg& message, const std::tm& /*time*/,
                spdlog::memory_buf_t& out) override {
        const char prefix[] = {'<', journal_priority(message.level), '>'};
        out.append(std::begin(prefix), std::end(prefix));
    }
    [[nodiscard]] std::unique_ptr<custom_flag_formatter> clone() const override {
        return std::make_unique<JournalPriority>();
    }
};

// %@ in a pattern: what is logged. Others' text has been cleaned where it came in; here nothing gets through
// that it was forgotten for.
class CleanMessage : public spdlog::custom_flag_formatter {
 public:
    void format(const spdlog::details::log_msg& message, const std::tm& /*time*/,
                spdlog::memory_buf_t& out) override {
        const std::string text = clean_lines({message.payload.data(), message.payload.size()});
        out.append(text.data(), text.data() + text.size());
    }
    [[nodiscard]] std::unique_ptr<custom_flag_formatter> clone() const override {
        return std::make_unique<CleanMessage>();
    }
};

// To the journal, with fields; what that does not take, to standard error, which is the journal's as well and
// has no fields. spdlog calls it from any thread.
class JournalSink final : public spdlog::sinks::sink {
 public:
    JournalSink(std::shared_ptr<JournalSocket> journal, std::string program, std::string host)
        : journal_(std::move(journal)), program_(std::move(program)), host_(std::move(host)) {}

    void log(const spdlog::details::log_msg& message) override {
        const LogFields& about = log_fields();
        const std::string text = clean_lines({message.payload.data(), message.payload.size()});
        const std::string priority(1, journal_priority(message.level));
        const std::string code = about.code ? std::to_string(*about.code) : "";
        std::vector<JournalField> fields = {
            {"MESSAGE", text}, {"PRIORITY", priority}, {"SYSLOG_IDENTIFIER", program_}};
        // As an application called it, which is perhaps no valid name.
        const std::string task = clean_name(about.task);
        const std::string group = clean_name(about.group);
        const JournalField optional[] = {{"HOST", host_}, {"TASK", task}, {"GROUP", group}, {"CODE", code}};
        for (const JournalField& field : optional) {
            if (!field.value.empty()) {
                fields.push_back(field);
            }
        }
        if (!journal_->send(journal_message(fields))) {
            otherwise_.log(message);
        }
    }
    void flush() override { otherwise_.flush(); }
    void set_pattern(const std::string& pattern) override { otherwise_.set_pattern(pattern); }
    void set_formatter(std::unique_ptr<spdlog::formatter> formatter) override {
        otherwise_.set_formatter(std::move(formatter));
    }

 private:
    const std::shared_ptr<JournalSocket> journal_;
    const std::string program_;
    const std::string host_;
    spdlog::sinks::stderr_sink_mt otherwise_;
};

// Standard error is the journal's; with fields where its socket is there.
spdlog::sink_ptr journal_sink(const LogSetup& setup) {
    auto journal = JournalSocket::connect(setup.journal);
    if (!journal) {
        return std::make_shared<spdlog::sinks::stderr_sink_mt>();
    }
    return std::make_shared<JournalSink>(std::move(*journal), setup.program, clean_name(setup.host));
}

// libbpf's print function, which it may call from any thread.
__attribute__((format(printf, 2, 0))) int print_libbpf(libbpf_print_level level, const char* format,
                                                       std::va_list arguments) {
    std::va_list again;
    va_copy(again, arguments);
    const int size = std::vsnprintf(nullptr, 0, format, again);
    va_end(again);
    if (size <= 0) {
        return size;
    }
    std::string line(static_cast<std::size_t>(size), '\0');
    std::vsnprintf(line.data(), line.size() + 1, format, arguments);
    {
        const std::lock_guard lock(capture().mutex);
        if (capture().on && capture().text.size() + line.size() <= kCaptureLimit) {
            capture().text += line;
        }
    }
    while (!line.empty() && line.back() == '\n') {
        line.pop_back();
    }
    spdlog::log(level == LIBBPF_DEBUG ? spdlog::level::trace : spdlog::level::debug, "{}", line);
    return size;
}

// protobuf's, of any thread. It calls a string of somebody's message that is not UTF-8 an error; whoever
// reaches a daemon's port could fill its log with that.
void print_protobuf(google::protobuf::LogLevel level, const char* file, int line, const std::string& text) {
    spdlog::log(level == google::protobuf::LOGLEVEL_FATAL ? spdlog::level::critical : spdlog::level::debug,
                "protobuf, {}:{}: {}", file, line, text);
}

// gRPC's, of any thread: whoever reaches a port could fill the log with handshakes that fail.
void print_grpc(gpr_log_func_args* line) {
    spdlog::debug("gRPC, {}:{}: {}", line->file, line->line, line->message);
}

Result<spdlog::level::level_enum> level_of(std::string_view level) {
    const std::string name = level == "warn" ? "warning" : std::string(level);
    const auto wanted = spdlog::level::from_str(name);
    if (wanted == spdlog::level::off && name != "off") {
        return Error(Errc::kUsage, "unknown log level \"" + name + "\"");
    }
    return wanted;
}

}  // namespace

const std::vector<std::string>& log_levels() {
    static const std::vector<std::string> kLevels = {"trace", "debug", "info", "warn", "error", "off"};
    return kLevels;
}

Result<> set_log_level(std::string_view level) {
    auto wanted = level_of(level);
    ASK_PASS(wanted);
    spdlog::default_logger_raw()->set_level(*wanted);
    return {};
}

Result<> set_up_log(const LogSetup& setup) {
    auto wanted = level_of(setup.level);
    ASK_PASS(wanted);
    // NOLINTNEXTLINE(concurrency-mt-unsafe): before any thread
    const bool to_journal = is_journal_stream(std::getenv("JOURNAL_STREAM"), STDERR_FILENO);
    auto logger = std::make_shared<spdlog::logger>(
        setup.program, to_journal ? journal_sink(setup) : std::make_shared<spdlog::sinks::stderr_sink_mt>());
    auto formatter = std::make_unique<spdlog::pattern_formatter>();
    formatter->add_flag<CleanMessage>('@');
    if (to_journal) {
        formatter->add_flag<JournalPriority>('*').set_pattern("%*%@");
    } else {
        formatter->set_pattern("%Y-%m-%dT%H:%M:%S.%e %n %l: %@");
    }
    logger->set_formatter(std::move(formatter));
    logger->set_level(*wanted);
    logger->flush_on(spdlog::level::trace);
    spdlog::set_default_logger(std::move(logger));
    libbpf_set_print(print_libbpf);
    google::protobuf::SetLogHandler(print_protobuf);
    gpr_set_log_function(print_grpc);
    return {};
}

LibbpfCapture::LibbpfCapture() {
    const std::lock_guard lock(capture().mutex);
    capture().on = true;
    capture().text.clear();
}

LibbpfCapture::~LibbpfCapture() {
    const std::lock_guard lock(capture().mutex);
    capture().on = false;
}

std::string LibbpfCapture::text() const {
    const std::lock_guard lock(capture().mutex);
    return capture().text;
}

}  // namespace ask
