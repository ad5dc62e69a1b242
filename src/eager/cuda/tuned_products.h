// Algorithms of products that were chosen by trials on the device: one table of the process, which every product reads,
// so that a product in a step and by itself still have the same bits.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "smolder/core/cuda/driver.h"
#include "smolder/eager/cuda/cublaslt.h"

namespace smolder::eager::cuda {

/// The key of a product, but for how its operands lie: `problem` its sizes, dtypes and what it may round, `target`
/// the device and the library.
struct ProductKey {
  std::string problem, target;
};

/// The findings of trials of a product.
struct ProductChoice {
  LtAlgo algo{};
  double usual_us = 0, chosen_us = 0;  ///< by what the heuristic chose, and by this
  int tried = 0;                       ///< algorithms
  bool is_usual = false;               ///< nothing was faster than what the heuristic chose
};
/// For rows of the kernel cache: a line of hexadecimal, then the numbers. Nothing where `text` is none.
std::string to_text(const ProductChoice& choice);
std::optional<ProductChoice> parse_product_choice(const std::string& text);

/// Where choices live beyond the process.
class ProductStore {
 public:
  virtual ~ProductStore() = default;
  virtual std::optional<ProductChoice> find(const ProductKey& key) = 0;
  virtual void keep(const ProductKey& key, const ProductChoice& choice, double milliseconds) = 0;
  /// Notes that what was found cannot be used.
  virtual void reject(const ProductKey& key) = 0;
};

/// From now on, for good, products are made by what trials chose, this process's or those in `store`. Does nothing the
/// second time.
void use_tuned_products(std::unique_ptr<ProductStore> store);
bool uses_tuned_products();
/// Changes when products may be made by others than before: what holds launches of them lets go of these.
uint64_t product_generation();

/// A row of the table. Thread-safe; trials are made by one thread at a time, which holds `lock`.
class TunedProduct {
 public:
  /// The row, looked up in the store when it is new. Never destroyed.
  static TunedProduct& of(const ProductKey& key);

  explicit TunedProduct(ProductKey key) : key_(std::move(key)) {}
  /// Nothing: what the heuristic says.
  std::optional<LtAlgo> chosen() const;
  /// The stored algorithm does not make this product: forgets it.
  void reject();

  static constexpr double kNever = std::numeric_limits<double>::infinity();
  /// One way that operands lie in.
  struct Layout {
    size_t usual = 0;                ///< which candidate the heuristic chose
    int64_t calls = 0;               ///< met in the first phase
    std::vector<double> once;        ///< seconds of a call, by candidate; kNever where it does not take these operands
    std::map<size_t, double> again;  ///< of finalists, measured longer
  };
  /// First all that the heuristic knows are called, then variants of the best, then the best of all are measured
  /// longer.
  enum class Phase : uint8_t { kKnown, kVariants, kFinal, kSettled };

  // Under `lock`.
  std::mutex lock;
  Phase phase() const { return phase_; }
  std::vector<LtChoice> candidates;
  std::vector<size_t> finalists;
  std::map<std::string, Layout> layouts;
  double spent = 0;  ///< seconds
  /// The candidate of these bytes; that many when there is none.
  size_t find(const LtChoice& choice) const;
  /// The same, but a new one joins them.
  size_t add(const LtChoice& choice);
  /// Whether a layout has nothing left to try in this phase.
  bool is_complete(const Layout& layout) const;
  /// Algorithms that differ in a setting from one; whether there are such is asked when they are tried.
  using Variants = std::function<std::vector<LtAlgo>(const LtAlgo&)>;
  /// Ends a phase.
  void advance(const Variants& variants_of);

 private:
  double total(size_t candidate, bool final) const;
  std::vector<size_t> best(size_t count) const;
  void choose_finalists();
  void settle();

  const ProductKey key_;
  Phase phase_ = Phase::kKnown;
  mutable std::mutex choice_lock_;
  std::optional<ProductChoice> choice_;
};

/// While it lives, products that its thread runs first try algorithms, on the operands and the memory that they have.
class ProductTrials {
 public:
  /// Tries begin within so many seconds of trials.
  ProductTrials(int device, double seconds);
  ~ProductTrials();
  ProductTrials(const ProductTrials&) = delete;
  ProductTrials& operator=(const ProductTrials&) = delete;
  /// The one of this thread; null outside.
  static ProductTrials* current();

  /// Whether another may begin, `more` seconds after what was added last.
  bool has_time(double more) const { return !gave_up_ && spent_ + more < seconds_; }
  double spent() const { return spent_; }
  void add_spent(double seconds) { spent_ += seconds; }
  /// A product ran whose operands lie so.
  void note(TunedProduct& product, const TunedProduct::Layout& layout) { met_[&product].insert(&layout); }
  /// Nothing more is tried: something failed.
  void give_up(const char* why);
  /// When all products of a step have run: ends the phases that are complete. False: there is more to try.
  bool finish();
  smolder::cuda::Event& begin() { return begin_; }
  smolder::cuda::Event& end() { return end_; }

 private:
  const double seconds_;
  double spent_ = 0;
  bool gave_up_ = false;
  ProductTrials* const outer_;
  smolder::cuda::Event begin_, end_;
  std::map<TunedProduct*, std::set<const TunedProduct::Layout*>> met_;
};

}  // namespace smolder::eager::cuda
