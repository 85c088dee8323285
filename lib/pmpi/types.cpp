// SPDX-License-Identifier: Apache-2.0
#include "lib/pmpi/types.h"

#include <algorithm>
#include <array>
#include <optional>
#include <vector>

#include "lib/ask/ask.h"

namespace ask::pmpi {
namespace {

// MPI's classes of types (MPI-4.0, 6.9.2): they say which operators there are.
enum class Class { kSigned, kUnsigned, kSignedForeign, kFloat, kComplex, kByte };

struct Known {
    MPI_Datatype type;
    Class what;
    std::size_t bytes;
};

// Set by MPI_Init, not changed any more.
std::vector<Known>& known() {
    static std::vector<Known> all;
    return all;
}

const Known* find(MPI_Datatype type) {
    const auto at = std::ranges::find(known(), type, &Known::type);
    return at == known().end() ? nullptr : &*at;
}

std::optional<int> dtype_of(Class what, std::size_t bytes) {
    constexpr std::array kSigned = {ASK_INT8, ASK_INT16, ASK_INT32, ASK_INT64};
    constexpr std::array kUnsigned = {ASK_UINT8, ASK_UINT16, ASK_UINT32, ASK_UINT64};
    constexpr std::array<std::size_t, 4> kSizes = {1, 2, 4, 8};
    if (what == Class::kFloat || what == Class::kComplex) {
        const std::size_t each = what == Class::kComplex ? bytes / 2 : bytes;
        return each == 4   ? std::optional<int>(ASK_FLOAT32)
               : each == 8 ? std::optional<int>(ASK_FLOAT64)
                           : std::nullopt;
    }
    const auto at = static_cast<std::size_t>(std::ranges::find(kSizes, bytes) - kSizes.begin());
    if (at == kSizes.size()) {
        return std::nullopt;
    }
    return what == Class::kUnsigned || what == Class::kByte ? kUnsigned.at(at) : kSigned.at(at);
}

struct Operator {
    MPI_Op op;
    int ask;
    bool truth;
};

const Operator* operator_of(MPI_Op op) {
    static const std::array kAll = {Operator{MPI_SUM, ASK_SUM, false},   Operator{MPI_PROD, ASK_PROD, false},
                                    Operator{MPI_MIN, ASK_MIN, false},   Operator{MPI_MAX, ASK_MAX, false},
                                    Operator{MPI_BAND, ASK_BAND, false}, Operator{MPI_BOR, ASK_BOR, false},
                                    Operator{MPI_BXOR, ASK_BXOR, false}, Operator{MPI_LAND, ASK_BAND, true},
                                    Operator{MPI_LOR, ASK_BOR, true},    Operator{MPI_LXOR, ASK_BXOR, true}};
    const auto at = std::ranges::find(kAll, op, &Operator::op);
    return at == kAll.end() ? nullptr : &*at;
}

bool allowed(Class what, const Operator& op) {
    const bool bits = op.ask == ASK_BAND || op.ask == ASK_BOR || op.ask == ASK_BXOR;
    switch (what) {
        case Class::kSigned:
        case Class::kUnsigned:
            return true;
        case Class::kSignedForeign:
            return !op.truth;
        case Class::kFloat:
            return !bits;
        case Class::kComplex:
            return op.ask == ASK_SUM;
        case Class::kByte:
            return bits && !op.truth;
    }
    return false;
}

}  // namespace

void learn_types() {
    using enum Class;
    known() = {{MPI_SIGNED_CHAR, kSigned, 0},
               {MPI_SHORT, kSigned, 0},
               {MPI_INT, kSigned, 0},
               {MPI_LONG, kSigned, 0},
               {MPI_LONG_LONG, kSigned, 0},
               {MPI_INT8_T, kSigned, 0},
               {MPI_INT16_T, kSigned, 0},
               {MPI_INT32_T, kSigned, 0},
               {MPI_INT64_T, kSigned, 0},
               {MPI_UNSIGNED_CHAR, kUnsigned, 0},
               {MPI_UNSIGNED_SHORT, kUnsigned, 0},
               {MPI_UNSIGNED, kUnsigned, 0},
               {MPI_UNSIGNED_LONG, kUnsigned, 0},
               {MPI_UNSIGNED_LONG_LONG, kUnsigned, 0},
               {MPI_UINT8_T, kUnsigned, 0},
               {MPI_UINT16_T, kUnsigned, 0},
               {MPI_UINT32_T, kUnsigned, 0},
               {MPI_UINT64_T, kUnsigned, 0},
               {MPI_AINT, kSignedForeign, 0},
               {MPI_OFFSET, kSignedForeign, 0},
               {MPI_COUNT, kSignedForeign, 0},
               {MPI_INTEGER, kSignedForeign, 0},
               {MPI_INTEGER1, kSignedForeign, 0},
               {MPI_INTEGER2, kSignedForeign, 0},
               {MPI_INTEGER4, kSignedForeign, 0},
               {MPI_INTEGER8, kSignedForeign, 0},
               {MPI_FLOAT, kFloat, 0},
               {MPI_DOUBLE, kFloat, 0},
               {MPI_REAL, kFloat, 0},
               {MPI_DOUBLE_PRECISION, kFloat, 0},
               {MPI_REAL4, kFloat, 0},
               {MPI_REAL8, kFloat, 0},
               {MPI_C_FLOAT_COMPLEX, kComplex, 0},
               {MPI_C_DOUBLE_COMPLEX, kComplex, 0},
               {MPI_COMPLEX, kComplex, 0},
               {MPI_DOUBLE_COMPLEX, kComplex, 0},
               {MPI_BYTE, kByte, 0}};
    // Without a Fortran compiler its types are none.
    std::erase_if(known(), [](Known& each) {
        int size = 0;
        if (each.type == MPI_DATATYPE_NULL || PMPI_Type_size(each.type, &size) != MPI_SUCCESS || size <= 0) {
            return true;
        }
        each.bytes = static_cast<std::size_t>(size);
        return !dtype_of(each.what, each.bytes);
    });
}

std::variant<Reduction, Way> reduction_of(MPI_Datatype type, MPI_Op op) {
    const Known* const its = find(type);
    if (its == nullptr) {
        return Way::kType;
    }
    const Operator* const its_op = operator_of(op);
    if (its_op == nullptr || !allowed(its->what, *its_op)) {
        return Way::kOperator;
    }
    const unsigned lanes = its->what == Class::kComplex ? 2 : 1;
    return Reduction{.dtype = *dtype_of(its->what, its->bytes),
                     .op = its_op->ask,
                     .lanes = lanes,
                     .bytes = its->bytes / lanes,
                     .truth = its_op->truth,
                     .type = type,
                     .operation = op};
}

bool is_plain(MPI_Datatype type) {
    return find(type) != nullptr || type == MPI_CHAR;
}

}  // namespace ask::pmpi
