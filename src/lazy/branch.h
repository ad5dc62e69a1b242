// Branches: functions that are recorded to be run later, or not at all, as the graphs of control flow.
//
// While a function is recorded its thread has a tape of the branch's own, on which nothing runs. A tensor from without
// is seen through a stand-in, whether it was given to the function or is one that the function reaches: it becomes an
// operand of the op that runs the graph. The tape and the history of what the function returned are kept as long as
// gradients may be wanted, and these are recorded on the same tape.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "smolder/ir/op.h"
#include "smolder/lazy/observers.h"
#include "smolder/lazy/record.h"

namespace smolder::lazy {

class Tape;

/// Used by one thread at a time.
class BranchTape final : public BranchObserver {
 public:
  /// `what` is for messages: "cond".
  BranchTape(std::string what, Device device);
  ~BranchTape() override;
  BranchTape(const BranchTape&) = delete;

  /// The one that this thread records on; null outside of branches.
  static BranchTape* current() { return static_cast<BranchTape*>(current_); }

  /// While it lives, this thread's work with tensors is recorded on the tape.
  class Scope {
   public:
    explicit Scope(BranchTape& branch);
    ~Scope();
    Scope(const Scope&) = delete;

   private:
    BranchTape& branch_;
    BranchObserver* outer_branch_;
    Tape* outer_tape_;
    bool eager_, keeps_casts_;
  };

  /// A tensor from without. `outer` is undefined once the op that runs the graph has been recorded.
  struct Outside {
    Tensor outer, stand_in;
  };
  const std::vector<Outside>& outside() const { return outside_; }
  /// The place of a tensor's stand-in, which is added when there is none.
  size_t add(const Tensor& outer);
  /// Adds the stand-in of what is not the tensor, though it is made of it: a carried value, or a slice. A function that
  /// reaches the tensor itself sees another. `tracked`: it requires a gradient whether the tensor does or not.
  size_t add_apart(const Tensor& outer, const ir::Meta& meta, bool tracked = false);
  void set_outer(size_t place, Tensor outer) { outside_[place].outer = std::move(outer); }
  void forget_outer();
  /// Whether stand-ins require gradients where what they stand for does: as grad mode was, and may be set.
  void set_tracks(bool on) { tracks_ = on; }

  std::vector<Operand> inside(std::span<const Operand> operands) override;
  Tensor inside(const Tensor& t);

  /// A graph of what was recorded, and the numbers that it reads.
  struct Extracted {
    int64_t graph = 0;
    std::vector<Scalar> numbers;
    bool draws = false;  ///< random numbers
  };
  /// The places of tensors from without that `results`, tensors of this tape, are computed from, ascending.
  std::vector<size_t> reads(const std::vector<Tensor>& results) const;
  /// The graph of `results`. `leaves` are the metadata of all its leaves, `numbers[place]` says which of them a tensor
  /// from without is, and its numbers are counted from `first_number` on.
  Extracted extract(const std::vector<Tensor>& results, const std::vector<const ir::Meta*>& leaves,
                    const std::unordered_map<size_t, uint32_t>& numbers, uint32_t first_number) const;

  [[noreturn]] void refuse_read(std::string_view reason) const override;
  [[noreturn]] void refuse_device(Device device) const override;
  void check_write(const Tensor& t) const override;
  void note_draw(Generator* g, GeneratorState state) override;
  /// The generators that were used, and where they were before.
  using Draws = std::vector<std::pair<Generator*, GeneratorState>>;
  const Draws& draws() const { return draws_; }

 private:
  bool is_native(TensorImpl* impl) const;
  size_t append(const Tensor& outer, const ir::Meta& meta);
  class Without;

  std::string what_;
  std::unique_ptr<Tape> tape_;
  std::vector<Outside> outside_;  ///< in the order of the tape's leaves
  std::unordered_map<const TensorImpl*, size_t> places_;
  Draws draws_;
  bool tracks_;
  Tape* outer_tape_ = nullptr;  ///< while a scope lives
  BranchObserver* outer_branch_ = nullptr;
};

}  // namespace smolder::lazy
