#include "smolder/autograd/anomaly.h"

#include <atomic>
#include <cstdio>

#include "smolder/autograd/node.h"
#include "smolder/core/source_line.h"
#include "smolder/lazy/ops.h"  // generated
#include "smolder/lazy/record.h"

namespace smolder::autograd {
namespace {

std::atomic<bool> g_on{false}, g_check_nan{true};

std::string source_line() { return "  " + resolve_source(capture_source()) + "\n"; }
void print(const std::string& message) { std::fprintf(stderr, "smolder: %s\n", message.c_str()); }

std::atomic<TraceProvider> g_trace{&source_line};
std::atomic<AnomalyReporter> g_report{&print};
thread_local const std::shared_ptr<Node>* t_running = nullptr;

}  // namespace

void set_anomaly_mode(bool on, bool check_nan) {
  g_on = on;
  g_check_nan = check_nan;
}
bool anomaly_mode() { return g_on.load(std::memory_order_relaxed); }
bool anomaly_checks_nan() { return g_check_nan.load(std::memory_order_relaxed); }

void set_anomaly_providers(TraceProvider trace, AnomalyReporter report) {
  g_trace = trace;
  g_report = report;
}

void note_anomaly(Node& node) {
  node.extra().anomaly = std::make_unique<Anomaly>(Anomaly{g_trace.load()(), t_running ? *t_running : nullptr});
}

RunningNode::RunningNode(const std::shared_ptr<Node>* node) : before_(std::exchange(t_running, node)) {}
RunningNode::~RunningNode() { t_running = before_; }

void report_anomaly(const Node& node) {
  const auto report = g_report.load();
  if (!node.anomaly()) {
    report("Error detected in " + node.name() +
           ". No forward pass information available. Enable detect anomaly during forward pass for more information.");
    return;
  }
  report("Error detected in " + node.name() + ". Traceback of forward call that caused the error:\n" +
         node.anomaly()->where);
  for (const Node* at = node.anomaly()->parent.get(); at; at = at->anomaly() ? at->anomaly()->parent.get() : nullptr) {
    const std::string led = "\n\nPrevious calculation was induced by " + at->name() + ". ";
    report(at->anomaly()
               ? led + "Traceback of forward call that induced the previous calculation:\n" + at->anomaly()->where
               : led + "No forward pass information available.");
  }
}

void check_for_nan(const Node& node, std::span<const Tensor> grads) {
  const lazy::GradMode none(false);
  for (size_t i = 0; i < grads.size(); ++i) {
    if (!grads[i].defined() || !is_differentiable(grads[i].dtype())) continue;
    SMOLDER_CHECK(!any(isnan(grads[i])).item().to_bool(), RuntimeError, "Function '", node.name(),
                  "' returned nan values in its ", i, "th output.");
  }
}

}  // namespace smolder::autograd
