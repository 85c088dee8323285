// SPDX-License-Identifier: Apache-2.0
//
// A member of tools/bench allreduce over MPI: mpi --dtype T --count N --runs N --shorts N --late-rank R
// --late MS --out DIR. Built by tools/bench-peers with the MPI's own compiler, once for each; rank r's report
// goes to DIR/h(r+1).out.
#include <mpi.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <string>

#include "bench/allreduce/vectors.h"

namespace ask::bench {
namespace {

MPI_Datatype type_of(Dtype dtype) {
    switch (dtype) {
        case Dtype::kInt32:
            return MPI_INT32_T;
        case Dtype::kInt64:
            return MPI_INT64_T;
        case Dtype::kFloat32:
            return MPI_FLOAT;
        case Dtype::kFloat64:
            return MPI_DOUBLE;
    }
    return MPI_DATATYPE_NULL;
}

class Mpi final : public Way {
 public:
    explicit Mpi(Dtype dtype) : type_(type_of(dtype)) {}
    Result<const std::byte*> reduce(std::byte* vector, std::size_t count) override {
        MPI_Allreduce(MPI_IN_PLACE, vector, static_cast<int>(count), type_, MPI_SUM, MPI_COMM_WORLD);
        return vector;
    }
    Result<> barrier(std::byte* /*few*/) override {
        MPI_Barrier(MPI_COMM_WORLD);
        return {};
    }
    [[nodiscard]] std::string note() const override {
        char text[MPI_MAX_LIBRARY_VERSION_STRING];
        int length = 0;
        MPI_Get_library_version(text, &length);
        const std::string all(text, static_cast<std::size_t>(length));
        return all.substr(0, all.find('\n'));
    }

 private:
    MPI_Datatype type_;
};

// Of tools/bench allreduce alone, which checks what it is told.
Work work_of(std::map<std::string, std::string>& flags) {
    const std::map<std::string, Dtype> dtypes = {{"int32", Dtype::kInt32},
                                                 {"int64", Dtype::kInt64},
                                                 {"float32", Dtype::kFloat32},
                                                 {"float64", Dtype::kFloat64}};
    const auto number = [&flags](const char* name) {
        return static_cast<unsigned>(std::strtoul(flags[name].c_str(), nullptr, 10));
    };
    Work work;
    work.dtype = dtypes.at(flags["--dtype"]);
    work.count = number("--count");
    work.runs = number("--runs");
    work.shorts = number("--shorts");
    work.late_rank = number("--late-rank");
    work.late_ms = number("--late");
    return work;
}

int main(int argc, char** argv) {
    MPI_Init(&argc, &argv);
    std::map<std::string, std::string> flags;
    for (int i = 1; i + 1 < argc; i += 2) {
        flags[argv[i]] = argv[i + 1];
    }
    Work work = work_of(flags);
    int rank = 0;
    int size = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    work.rank = static_cast<unsigned>(rank);
    work.size = static_cast<unsigned>(size);
    Mpi way(work.dtype);
    const auto done = measure(work, way);
    if (!done) {
        std::fprintf(stderr, "rank %d: %s\n", rank, done.error().text().c_str());
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    std::ofstream(flags["--out"] + "/rank" + std::to_string(rank) + ".out") << *done << '\n';
    MPI_Barrier(MPI_COMM_WORLD);
#ifdef MPICH
    // MPI_Finalize() of MPICH 4.0 over UCX waits forever, mostly, for a rank that does not look any more.
    std::_Exit(0);
#else
    MPI_Finalize();
    return 0;
#endif
}

}  // namespace
}  // namespace ask::bench

int main(int argc, char** argv) {
    return ask::bench::main(argc, argv);
}
