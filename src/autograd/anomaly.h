// Anomaly mode: an error during backward names the forward line, and gradients that are nan are errors.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "smolder/lazy/tensor.h"

namespace smolder::autograd {

class Node;

/// For all threads, as torch's. `check_nan` reads every gradient as it is computed, which ends a step each time.
void set_anomaly_mode(bool on, bool check_nan = true);
bool anomaly_mode();
bool anomaly_checks_nan();

/// Where the program is now, in as many lines as the front end likes; installed by it.
using TraceProvider = std::string (*)();
/// Told, before an error goes on, where the op was recorded whose gradient failed.
using AnomalyReporter = void (*)(const std::string& message);
void set_anomaly_providers(TraceProvider trace, AnomalyReporter report);

/// Keeps where the program is, and the node being run, with a node that was just made.
void note_anomaly(Node& node);

/// The node that this thread's backward runs, for nodes made meanwhile; null outside.
class RunningNode {
 public:
  explicit RunningNode(const std::shared_ptr<Node>* node);
  ~RunningNode();
  RunningNode(const RunningNode&) = delete;

 private:
  const std::shared_ptr<Node>* before_;
};

/// Reports where `node` and what led to it were recorded.
void report_anomaly(const Node& node);
/// Throws RuntimeError when one of the gradients that `node` computed holds a nan.
void check_for_nan(const Node& node, std::span<const Tensor> grads);

}  // namespace smolder::autograd
