#include "smolder/eager/cuda/tuned_products.h"

#include <gtest/gtest.h>

#include <cstring>

namespace smolder::eager::cuda {
namespace {

LtChoice algorithm(uint64_t number) { return {.algo = {{number, 7}}}; }

/// Times of candidates in one layout, whose usual one is number `usual`.
TunedProduct::Layout layout(size_t usual, int64_t calls, std::vector<double> seconds) {
  TunedProduct::Layout out;
  out.usual = usual;
  out.calls = calls;
  for (size_t i = 0; i < seconds.size(); ++i) out.again[i] = seconds[i];
  out.once = std::move(seconds);
  return out;
}

/// The number of the algorithm that these layouts lead to; -1 for the usual ones.
int64_t chosen(std::vector<TunedProduct::Layout> layouts) {
  TunedProduct product({"a product", "a device"});
  for (uint64_t i = 0; i < layouts[0].once.size(); ++i) EXPECT_EQ(product.add(algorithm(i)), i);
  for (size_t i = 0; i < layouts.size(); ++i) product.layouts[std::to_string(i)] = layouts[i];
  const auto no_variants = [](const LtAlgo&) { return std::vector<LtAlgo>(); };
  product.advance(no_variants);
  product.advance(no_variants);
  EXPECT_EQ(product.phase(), TunedProduct::Phase::kFinal);
  for (const auto& [how, each] : product.layouts) EXPECT_TRUE(product.is_complete(each));
  product.advance(no_variants);
  EXPECT_EQ(product.phase(), TunedProduct::Phase::kSettled);
  const std::optional<LtAlgo> algo = product.chosen();
  return algo ? static_cast<int64_t>(algo->data[0]) : -1;
}

constexpr double kNever = TunedProduct::kNever;

TEST(TunedProducts, TheLeastTimeOfAllCallsWins) {
  EXPECT_EQ(chosen({layout(0, 1, {5, 4, 3})}), 2);
  EXPECT_EQ(chosen({layout(0, 1, {5, 4, 3}), layout(0, 10, {5, 3, 4})}), 1);
  EXPECT_EQ(chosen({layout(0, 10, {5, 4, 3}), layout(0, 1, {5, 3, 4})}), 2);
}

TEST(TunedProducts, WhatOneLayoutDoesNotTakeIsNotChosen) {
  EXPECT_EQ(chosen({layout(0, 1, {5, 4, 1}), layout(0, 1, {5, 4, kNever})}), 1);
  EXPECT_EQ(chosen({layout(0, 1, {5, kNever, kNever})}), -1);
}

TEST(TunedProducts, WhatIsHardlyFasterIsNotChosen) {
  EXPECT_EQ(chosen({layout(0, 1, {1.0, 0.995})}), -1);
  EXPECT_EQ(chosen({layout(0, 1, {1.0, 0.98})}), 1);
  // The usual choice differs by layout: nothing is as fast in both as these two are.
  EXPECT_EQ(chosen({layout(0, 1, {1, 5, 3}), layout(1, 1, {5, 1, 3})}), -1);
  EXPECT_EQ(chosen({layout(0, 1, {2, 5, 1.5}), layout(1, 1, {5, 2, 1.5})}), 2);
}

TEST(TunedProducts, VariantsOfTheBestAreTried) {
  TunedProduct product({"a product", "a device"});
  for (uint64_t i = 0; i < 5; ++i) product.add(algorithm(i));
  TunedProduct::Layout& only = product.layouts["only"] = layout(0, 1, {5, 1, 2, 3, kNever});
  std::vector<uint64_t> varied;
  const auto variants = [&](const LtAlgo& algo) {
    varied.push_back(algo.data[0]);
    return std::vector<LtAlgo>{{{algo.data[0] + 10}}, algo};
  };
  product.advance(variants);
  EXPECT_EQ(varied, (std::vector<uint64_t>{1, 2, 3}));
  ASSERT_EQ(product.candidates.size(), 8u);
  EXPECT_FALSE(product.is_complete(only));
  only.once.insert(only.once.end(), {4, 0.5, 4});
  EXPECT_TRUE(product.is_complete(only));
  product.advance(variants);
  EXPECT_EQ(product.finalists, (std::vector<size_t>{6, 1, 2, 3, 0}));
}

TEST(TunedProducts, RowsOfTheCacheAreReadBackOrRefused) {
  ProductChoice choice;
  for (uint64_t i = 0; i < 8; ++i) choice.algo.data[i] = 0x0123456789abcdef * (i + 1);
  choice.usual_us = 12.25;
  choice.chosen_us = 10.5;
  choice.tried = 17;
  const std::string text = to_text(choice);
  const auto back = parse_product_choice(text);
  ASSERT_TRUE(back);
  EXPECT_EQ(std::memcmp(&back->algo, &choice.algo, sizeof(LtAlgo)), 0);
  EXPECT_EQ(back->usual_us, 12.25);
  EXPECT_EQ(back->chosen_us, 10.5);
  EXPECT_EQ(back->tried, 17);
  EXPECT_FALSE(back->is_usual);
  EXPECT_FALSE(parse_product_choice(""));
  EXPECT_FALSE(parse_product_choice("algorithm 00ff\n"));
  EXPECT_FALSE(parse_product_choice(text.substr(0, text.size() / 2 + 50)));
  std::string wrong = text;
  wrong[12] = 'x';
  EXPECT_FALSE(parse_product_choice(wrong));
}

}  // namespace
}  // namespace smolder::eager::cuda
