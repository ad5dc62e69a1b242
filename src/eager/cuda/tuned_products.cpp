#include "smolder/eager/cuda/tuned_products.h"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstring>
#include <ranges>
#include <sstream>
#include <unordered_map>

#include "smolder/core/counters.h"

namespace smolder::eager::cuda {
namespace {

constexpr size_t kFinalists = 4, kVaried = 3;
/// An algorithm that is faster by less is not worth other bits.
constexpr double kWorthwhile = 0.99;

std::atomic<bool> g_used{false};
std::atomic<uint64_t> g_generation{0};
thread_local ProductTrials* t_current = nullptr;

/// Never destroyed: products may still run while statics are.
struct Table {
  std::mutex lock;
  std::unique_ptr<ProductStore> store;
  std::unordered_map<std::string, std::unique_ptr<TunedProduct>> rows;
};
Table& table() {
  static auto* const t = new Table;
  return *t;
}

/// The depth split otherwise, and blocks in another order.
std::vector<LtAlgo> variants_of(const LtAlgo& from) {
  constexpr uint32_t kSplits[] = {1, 2, 3, 4, 6, 8, 12, 16};
  const CublasLt& lt = cublaslt();
  const auto get = [&](LtAlgoAttribute which) -> std::optional<uint32_t> {
    uint32_t value = 0;
    size_t written = 0;
    const bool found = lt.algo_get(&from, which, &value, sizeof value, &written) == 0;
    return found ? std::optional(value) : std::nullopt;
  };
  const auto set = [&](LtAlgo& algo, LtAlgoAttribute which, uint32_t value) {
    return lt.algo_set(&algo, which, &value, sizeof value) == 0;
  };
  std::vector<LtAlgo> out;
  const auto splits = get(LtAlgoAttribute::kSplits), swizzle = get(LtAlgoAttribute::kSwizzle);
  for (const uint32_t count : kSplits) {
    LtAlgo algo = from;
    if (!splits || count == std::max(*splits, 1u) || !set(algo, LtAlgoAttribute::kSplits, count)) continue;
    if (set(algo, LtAlgoAttribute::kReduction, count == 1 ? 0 : kReduceInComputeType)) out.push_back(algo);
  }
  LtAlgo algo = from;
  if (swizzle && set(algo, LtAlgoAttribute::kSwizzle, *swizzle == 0 ? 1 : 0)) out.push_back(algo);
  return out;
}

std::string microseconds(double us) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f us", us);
  return text;
}

}  // namespace

std::string to_text(const ProductChoice& choice) {
  std::string out = "algorithm ";
  unsigned char bytes[sizeof(LtAlgo)];
  std::memcpy(bytes, &choice.algo, sizeof bytes);
  for (const unsigned char b : bytes) {
    constexpr char kDigits[] = "0123456789abcdef";
    out += kDigits[b >> 4];
    out += kDigits[b & 15];
  }
  char numbers[160];
  std::snprintf(numbers, sizeof numbers, "\nusual %d\nusual_us %.2f\nchosen_us %.2f\ntried %d\n", int{choice.is_usual},
                choice.usual_us, choice.chosen_us, choice.tried);
  return out + numbers;
}

std::optional<ProductChoice> parse_product_choice(const std::string& text) {
  std::istringstream in(text);
  ProductChoice out;
  std::string word, digits;
  if (!(in >> word >> digits) || word != "algorithm" || digits.size() != 2 * sizeof(LtAlgo)) return std::nullopt;
  unsigned char bytes[sizeof(LtAlgo)];
  for (size_t i = 0; i < sizeof bytes; ++i) {
    const std::string two = digits.substr(2 * i, 2);
    if (two.find_first_not_of("0123456789abcdef") != std::string::npos) return std::nullopt;
    bytes[i] = static_cast<unsigned char>(std::stoi(two, nullptr, 16));
  }
  std::memcpy(&out.algo, bytes, sizeof bytes);
  std::string names[4];
  if (!(in >> names[0] >> out.is_usual >> names[1] >> out.usual_us >> names[2] >> out.chosen_us >> names[3] >>
        out.tried)) {
    return std::nullopt;
  }
  const bool good = names[0] == "usual" && names[1] == "usual_us" && names[2] == "chosen_us" && names[3] == "tried";
  return good ? std::optional(out) : std::nullopt;
}

void use_tuned_products(std::unique_ptr<ProductStore> store) {
  const std::lock_guard hold(table().lock);
  if (g_used) return;
  table().store = std::move(store);
  ++g_generation;
  g_used = true;
}

bool uses_tuned_products() { return g_used.load(std::memory_order_acquire); }
uint64_t product_generation() { return g_generation.load(std::memory_order_acquire); }

TunedProduct& TunedProduct::of(const ProductKey& key) {
  static Counter& loaded = counter("tuning.loaded");
  const std::lock_guard hold(table().lock);
  std::unique_ptr<TunedProduct>& row = table().rows[key.target + "\n" + key.problem];
  if (row) return *row;
  row = std::make_unique<TunedProduct>(key);
  if (!table().store) return *row;
  if (auto choice = table().store->find(key)) {
    loaded.add();
    row->choice_ = *choice;
    row->phase_ = Phase::kSettled;
  }
  return *row;
}

std::optional<LtAlgo> TunedProduct::chosen() const {
  const std::lock_guard hold(choice_lock_);
  return choice_ && !choice_->is_usual ? std::optional(choice_->algo) : std::nullopt;
}

void TunedProduct::reject() {
  {
    const std::lock_guard hold(lock);
    const std::lock_guard hold_choice(choice_lock_);
    if (!choice_) return;
    choice_.reset();
    phase_ = Phase::kKnown;
  }
  const std::lock_guard hold(table().lock);
  if (table().store) table().store->reject(key_);
}

size_t TunedProduct::find(const LtChoice& choice) const {
  const auto same = [&](const LtChoice& c) { return std::memcmp(&c.algo, &choice.algo, sizeof(LtAlgo)) == 0; };
  return static_cast<size_t>(std::ranges::find_if(candidates, same) - candidates.begin());
}

size_t TunedProduct::add(const LtChoice& choice) {
  const size_t at = find(choice);
  if (at == candidates.size()) candidates.push_back(choice);
  return at;
}

bool TunedProduct::is_complete(const Layout& layout) const {
  if (phase_ == Phase::kSettled) return true;
  const auto measured = [&](size_t i) { return layout.again.contains(i); };
  return layout.once.size() == candidates.size() &&
         (phase_ != Phase::kFinal || std::ranges::all_of(finalists, measured));
}

/// Seconds of all calls by a candidate; by what the heuristic chose for each layout where it is how many there are.
double TunedProduct::total(size_t candidate, bool final) const {
  double sum = 0;
  for (const auto& [how, layout] : layouts) {
    if (layout.once.size() < candidates.size()) continue;  // not met in this phase
    const size_t which = candidate == candidates.size() ? layout.usual : candidate;
    double seconds = layout.once[which];
    if (final) {
      const auto at = layout.again.find(which);
      seconds = at == layout.again.end() ? kNever : at->second;
    }
    sum += static_cast<double>(layout.calls) * seconds;
  }
  return sum;
}

/// Those that take least time, by their first calls.
std::vector<size_t> TunedProduct::best(size_t count) const {
  std::vector<std::pair<double, size_t>> order;
  for (size_t i = 0; i < candidates.size(); ++i) order.emplace_back(total(i, false), i);
  std::ranges::sort(order);
  std::vector<size_t> out;
  for (const auto& [seconds, which] : order) {
    if (out.size() < count && seconds < kNever) out.push_back(which);
  }
  return out;
}

void TunedProduct::choose_finalists() {
  finalists = best(kFinalists);
  for (const auto& [how, layout] : layouts) {
    if (std::ranges::find(finalists, layout.usual) == finalists.end()) finalists.push_back(layout.usual);
  }
}

void TunedProduct::advance(const Variants& variants_of) {
  switch (phase_) {
    case Phase::kKnown:
      for (const size_t which : best(kVaried)) {
        for (const LtAlgo& algo : variants_of(candidates[which].algo)) add({.algo = algo});
      }
      phase_ = Phase::kVariants;
      return;
    case Phase::kVariants:
      choose_finalists();
      phase_ = Phase::kFinal;
      return;
    case Phase::kFinal:
      settle();
      phase_ = Phase::kSettled;
      return;
    case Phase::kSettled:
      return;
  }
}

void TunedProduct::settle() {
  static Counter &products = counter("tuning.products"), &changed = counter("tuning.changed");
  int64_t calls = 0;
  for (const auto& [how, layout] : layouts) calls += layout.calls;
  const double usual = total(candidates.size(), true), limit = usual * kWorthwhile;
  ProductChoice choice;
  choice.is_usual = true;
  const auto runs = [&](size_t i) { return total(i, false) < kNever; };
  choice.tried = static_cast<int>(std::ranges::count_if(std::views::iota(size_t{0}, candidates.size()), runs));
  double least = limit;
  size_t best = layouts.empty() ? 0 : layouts.begin()->second.usual;
  for (const size_t i : finalists) {
    const double seconds = total(i, true);
    if (seconds < least) least = seconds, best = i, choice.is_usual = false;
  }
  if (!(usual < kNever) || calls == 0) return;
  const auto us = [&](double seconds) { return seconds / static_cast<double>(calls) * 1e6; };
  choice.algo = candidates[best].algo;
  choice.usual_us = us(usual);
  choice.chosen_us = us(choice.is_usual ? usual : least);
  products.add();
  const std::string tried = std::to_string(choice.tried) + " algorithms tried";
  const std::string told =
      choice.is_usual
          ? ": none of " + std::to_string(choice.tried) + " algorithms beats " + microseconds(choice.usual_us)
          : ": " + microseconds(choice.chosen_us) + " instead of " + microseconds(choice.usual_us) + ", " + tried;
  record_event({"tuning", key_.problem + told, "", spent * 1e3});
  {
    const std::lock_guard hold(choice_lock_);
    choice_ = choice;
  }
  if (!choice.is_usual) {
    changed.add();
    ++g_generation;
  }
  const std::lock_guard hold(table().lock);
  if (table().store) table().store->keep(key_, choice, spent * 1e3);
}

ProductTrials::ProductTrials(int device, double seconds)
    : seconds_(seconds), outer_(t_current), begin_(device, true), end_(device, true) {
  t_current = this;
}

ProductTrials::~ProductTrials() {
  static Counter& us = counter("tuning.us");
  us.add(static_cast<int64_t>(spent_ * 1e6));
  t_current = outer_;
}

ProductTrials* ProductTrials::current() { return t_current; }

void ProductTrials::give_up(const char* why) {
  gave_up_ = true;
  record_event({"tuning", std::string("products of a step are not tuned: ") + why, ""});
}

bool ProductTrials::finish() {
  if (gave_up_) return true;
  bool settled = true;
  for (const auto& [product, met] : met_) {
    const std::lock_guard hold(product->lock);
    const auto complete = [&](const TunedProduct::Layout* layout) { return product->is_complete(*layout); };
    if (std::ranges::all_of(met, complete)) product->advance(variants_of);
    settled &= product->phase() == TunedProduct::Phase::kSettled;
  }
  return settled;
}

}  // namespace smolder::eager::cuda
