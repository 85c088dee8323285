// SPDX-License-Identifier: Apache-2.0
//
// ask-mpi-cases CASE [ARGUMENT]: programs that mpi_test.sh does something to.
//   late SECONDS   rank 1 comes to a sum so much later than others
//   until-error    sums until one fails; prints what MPI says of the error, and ends as if nothing had been
//   until-abort    the same with MPI's own error handler, which ends the job
//   threads        two threads a rank, each with a communicator of its own
//   pairs          a sum of the world, and of those who have the lower and the upper half of its ranks
#include <mpi.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <thread>
#include <vector>

namespace {

int rank = 0;
int size = 0;

[[noreturn]] void fail(const char* text) {
    std::fprintf(stderr, "FAIL rank %d: %s\n", rank, text);
    MPI_Abort(MPI_COMM_WORLD, 1);
    std::abort();
}

// The sum of `value` over `comm`, in every element.
int sum(MPI_Comm comm, int value, int expected, std::size_t count) {
    const std::vector<int> in(count, value);
    std::vector<int> out(count, -1);
    const int code = MPI_Allreduce(in.data(), out.data(), static_cast<int>(count), MPI_INT, MPI_SUM, comm);
    for (const int each : out) {
        if (code == MPI_SUCCESS && each != expected) {
            fail("a wrong sum");
        }
    }
    return code;
}

int sum_of_ranks() {
    return size * (size - 1) / 2;
}

void until_error() {
    for (unsigned i = 0;; ++i) {
        const int code = sum(MPI_COMM_WORLD, rank, sum_of_ranks(), 1000);
        if (code != MPI_SUCCESS) {
            std::array<char, MPI_MAX_ERROR_STRING> text{};
            int length = 0;
            MPI_Error_string(code, text.data(), &length);
            std::printf("rank %d: %s\n", rank, text.data());
            // What has failed stays so.
            if (sum(MPI_COMM_WORLD, rank, sum_of_ranks(), 1000) == MPI_SUCCESS) {
                fail("an operation after the failure has succeeded");
            }
            return;
        }
        if (i == 20 && rank == 0) {
            std::printf("under way\n");
            std::fflush(stdout);
        }
    }
}

void threads() {
    std::array<MPI_Comm, 2> comms{};
    std::vector<std::thread> all;
    for (MPI_Comm& comm : comms) {
        MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    }
    for (const MPI_Comm comm : comms) {
        all.emplace_back([comm] {
            for (int i = 0; i < 200; ++i) {
                if (sum(comm, rank + i, sum_of_ranks() + size * i, 500) != MPI_SUCCESS) {
                    fail("a sum failed");
                }
            }
        });
    }
    for (std::thread& each : all) {
        each.join();
    }
    for (MPI_Comm& comm : comms) {
        MPI_Comm_free(&comm);
    }
}

void pairs() {
    MPI_Comm half = MPI_COMM_NULL;
    MPI_Comm_split(MPI_COMM_WORLD, rank < size / 2 ? 0 : 1, rank, &half);
    const bool lower = rank < size / 2;
    int ranks_there = 0;
    for (int each = 0; each < size; ++each) {
        ranks_there += (each < size / 2) == lower ? each : 0;
    }
    if (sum(MPI_COMM_WORLD, rank, sum_of_ranks(), 10) != MPI_SUCCESS ||
        sum(half, rank, ranks_there, 10) != MPI_SUCCESS) {
        fail("a sum failed");
    }
    MPI_Comm_free(&half);
}

}  // namespace

int main(int argc, char** argv) {
    int provided = 0;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    const std::string_view what = argc > 1 ? argv[1] : "";
    if (what == "late" && argc > 2) {
        if (rank == 1) {
            ::sleep(static_cast<unsigned>(std::strtoul(argv[2], nullptr, 10)));
        }
        if (sum(MPI_COMM_WORLD, rank, sum_of_ranks(), 1000) != MPI_SUCCESS) {
            fail("the sum failed");
        }
    } else if (what == "until-error") {
        MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
        until_error();
    } else if (what == "until-abort") {
        until_error();
    } else if (what == "threads") {
        provided == MPI_THREAD_MULTIPLE ? threads() : fail("MPI has no MPI_THREAD_MULTIPLE");
    } else if (what == "pairs") {
        pairs();
    } else {
        fail("usage: ask-mpi-cases CASE [ARGUMENT]");
    }
    MPI_Finalize();
    return 0;
}
