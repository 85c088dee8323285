// SPDX-License-Identifier: Apache-2.0
//
// doctest's main(), for which a run of no test case is a good one: not where a file is named whose cases are
// meant, and which may have got another name since.
#define DOCTEST_CONFIG_IMPLEMENT
#include <algorithm>
#include <iostream>
#include <string_view>

#include <doctest/doctest.h>

namespace {

unsigned chosen = 0;

class ChosenCases final : public doctest::IReporter {
 public:
    explicit ChosenCases(const doctest::ContextOptions& /*options*/) {}
    void report_query(const doctest::QueryData& /*data*/) override {}
    void test_run_start() override {}
    void test_run_end(const doctest::TestRunStats& stats) override {
        chosen = stats.numTestCasesPassingFilters;
    }
    void test_case_start(const doctest::TestCaseData& /*data*/) override {}
    void test_case_reenter(const doctest::TestCaseData& /*data*/) override {}
    void test_case_end(const doctest::CurrentTestCaseStats& /*stats*/) override {}
    void test_case_exception(const doctest::TestCaseException& /*exception*/) override {}
    void subcase_start(const doctest::SubcaseSignature& /*signature*/) override {}
    void subcase_end() override {}
    void log_assert(const doctest::AssertData& /*data*/) override {}
    void log_message(const doctest::MessageData& /*data*/) override {}
    void test_case_skipped(const doctest::TestCaseData& /*data*/) override {}
};

REGISTER_LISTENER("chosen", 1, ChosenCases);

}  // namespace

int main(int argc, char** argv) {
    const int code = doctest::Context(argc, argv).run();
    const bool by_file = std::any_of(argv, argv + argc, [](const char* word) {
        return std::string_view(word).starts_with("--source-file=");
    });
    if (code == 0 && by_file && chosen == 0) {
        std::cerr << "no test case is in the files of --source-file\n";
        return 1;
    }
    return code;
}
