// SPDX-License-Identifier: Apache-2.0
//
// ask-bench-mpi RUNS COUNT...: allreduces of so many doubles (0: a barrier) by MPI_..., before which
// libask_pmpi.so stands, and by PMPI_..., MPI's own, in turns. Each is checked. Rank 0 prints seconds of
// each, of the rank that took longest, as JSON.
#include <mpi.h>

#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace {

using Allreduce = int (*)(const void*, void*, int, MPI_Datatype, MPI_Op, MPI_Comm);
using Barrier = int (*)(MPI_Comm);

struct By {
    const char* name;
    Allreduce allreduce;
    Barrier barrier;
};

int rank = 0;
int size = 0;

void check(int code, const char* what) {
    if (code != MPI_SUCCESS) {
        std::fprintf(stderr, "rank %d: %s returned %d\n", rank, what, code);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
}

void check_sums(const std::vector<double>& sums, const By& by) {
    const double wanted = size * (size + 1) / 2.0;
    for (const double sum : sums) {
        if (sum != wanted) {
            std::fprintf(stderr, "rank %d: a wrong sum by %s: %g, not %g\n", rank, by.name, sum, wanted);
            MPI_Abort(MPI_COMM_WORLD, 1);
        }
    }
}

// Seconds of one, as this rank sees it.
double once(const By& by, const std::vector<double>& in, std::vector<double>& out) {
    check(PMPI_Barrier(MPI_COMM_WORLD), "PMPI_Barrier");
    const double begun = MPI_Wtime();
    if (in.empty()) {
        check(by.barrier(MPI_COMM_WORLD), by.name);
    } else {
        check(by.allreduce(in.data(), out.data(), static_cast<int>(in.size()), MPI_DOUBLE, MPI_SUM,
                           MPI_COMM_WORLD),
              by.name);
    }
    const double seconds = MPI_Wtime() - begun;
    check_sums(out, by);
    return seconds;
}

nlohmann::json measure(const std::vector<By>& all, std::size_t count, int runs) {
    const std::vector<double> in(count, rank + 1);
    std::vector<double> out(count);
    std::vector<std::vector<double>> seconds(all.size());
    for (int run = -1; run < runs; ++run) {
        for (std::size_t by = 0; by < all.size(); ++by) {
            const double taken = once(all[by], in, out);
            if (run >= 0) {  // the first opens the group
                seconds[by].push_back(taken);
            }
        }
    }
    nlohmann::json line = {{"bytes", count * sizeof(double)}};
    for (std::size_t by = 0; by < all.size(); ++by) {
        check(PMPI_Allreduce(MPI_IN_PLACE, seconds[by].data(), runs, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD),
              "PMPI_Allreduce");
        line[all[by].name] = seconds[by];
    }
    return line;
}

}  // namespace

int main(int argc, char** argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    const std::vector<By> all = {{"ask", &MPI_Allreduce, &MPI_Barrier},
                                 {"mpi", &PMPI_Allreduce, &PMPI_Barrier}};
    const int runs = argc > 1 ? std::atoi(argv[1]) : 0;
    if (runs < 1) {
        std::fprintf(stderr, "usage: ask-bench-mpi RUNS COUNT...\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    nlohmann::json lines = nlohmann::json::array();
    for (int at = 2; at < argc; ++at) {
        lines.push_back(measure(all, std::strtoull(argv[at], nullptr, 10), runs));
    }
    if (rank == 0) {
        std::cout << lines << std::endl;
    }
    MPI_Finalize();
    return 0;
}
