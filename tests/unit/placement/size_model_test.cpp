// SPDX-License-Identifier: Apache-2.0
#include "lib/placement/size_model.h"

#include <cmath>
#include <string>

#include <doctest/doctest.h>

using namespace ask::placement;

TEST_CASE("a constant message is as long whatever it holds, and nothing is nothing") {
    const SizeModel model = SizeModel::constant(1500).value();
    CHECK(model.bytes(0) == 0);
    CHECK(model.bytes(1) == 1500);
    CHECK(model.bytes(1000000) == 1500);
    for (const double bad : {0.0, -1.0, std::nan(""), static_cast<double>(INFINITY)}) {
        CHECK_FALSE(SizeModel::constant(bad).ok());
    }
}

TEST_CASE("a parameter server's aggregate holds every feature that any server kept") {
    const SizeModel model = SizeModel::parameter_server(10000, 0.5, 4).value();
    CHECK(model.bytes(1) == 20000);
    CHECK(model.bytes(2) == 30000);
    CHECK(model.bytes(100) == doctest::Approx(40000));
    CHECK(SizeModel::parameter_server(10, 0, 4)->bytes(1) == 40);
    CHECK_FALSE(SizeModel::parameter_server(0, 0.5, 4).ok());
    CHECK_FALSE(SizeModel::parameter_server(1, 1, 4).ok());
    CHECK_FALSE(SizeModel::parameter_server(1, -0.1, 4).ok());
    CHECK_FALSE(SizeModel::parameter_server(1, std::nan(""), 4).ok());
    CHECK_FALSE(SizeModel::parameter_server(1, 0.5, 0).ok());
}

TEST_CASE("measured points are joined by lines and held beyond the ends") {
    const SizeModel model = SizeModel::measured({{2, 20}, {4, 30}, {8, 34}}).value();
    CHECK(model.bytes(1) == 20);
    CHECK(model.bytes(2) == 20);
    CHECK(model.bytes(3) == 25);
    CHECK(model.bytes(6) == 32);
    CHECK(model.bytes(8) == 34);
    CHECK(model.bytes(9) == 34);
    CHECK_FALSE(SizeModel::measured({}).ok());
    CHECK_FALSE(SizeModel::measured({{0, 1}}).ok());
    CHECK_FALSE(SizeModel::measured({{2, 1}, {2, 3}}).ok());
    CHECK(SizeModel::measured({{1, 5}, {2, 0}}).error().text().find("size point 1") != std::string::npos);
}

TEST_CASE("a word count's aggregate lists the union of its servers' words") {
    // Shards "a bb a", "bb ccc a", ... of three words each; a count takes 8 bytes.
    const std::string text = "A bb a! bb ccc,a dddd dddd DDDD\nbb bb bb";
    const auto points = measure_word_count(text, 4, 50, 1).value();
    REQUIRE(points.size() == 3);
    CHECK(points[0].servers == 1);
    CHECK(points[1].servers == 2);
    CHECK(points[2].servers == 4);
    CHECK(points[2].bytes == (1 + 8) + (2 + 8) + (3 + 8) + (4 + 8));
    // Single shards hold {a, bb}, {a, bb, ccc}, {dddd} and {bb}.
    CHECK(points[0].bytes >= 10);
    CHECK(points[0].bytes <= 30);
    CHECK(points[1].bytes > points[0].bytes);
    CHECK(points[1].bytes < points[2].bytes);
}

TEST_CASE("a word count by a list of the caller's has the union of each number of servers") {
    class Counted final : public WordList {
     public:
        void clear() override { words_ = 0; }
        void add(std::string_view /*word*/) override { ++words_; }
        [[nodiscard]] double bytes() const override { return words_; }

     private:
        double words_ = 0;
    };
    std::string text;
    for (char letter = 'a'; letter < 'a' + 20; ++letter) {
        text += std::string(1, letter) + " same ";
    }
    Counted list;
    const auto points = measure_word_count(text, 20, 3, 1, list).value();
    REQUIRE(points.size() == 18);
    for (const SizePoint& point : points) {
        CHECK(point.bytes == static_cast<double>(point.servers + 1));
    }
    CHECK(points[15].servers == 16);
    CHECK(points[16].servers == 18);
    CHECK_FALSE(measure_word_count(text, 0, 1, 1, list).ok());
}

TEST_CASE("a word count refuses a text that is too short") {
    CHECK(measure_word_count("one two", 3, 1, 1).error().text().find("2 words for 3 shards") !=
          std::string::npos);
    CHECK_FALSE(measure_word_count("one", 0, 1, 1).ok());
    CHECK_FALSE(measure_word_count("one", 1, 0, 1).ok());
    CHECK(measure_word_count("one", 1, 1, 1).value().size() == 1);
}
