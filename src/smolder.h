// All that a program uses: tensors and their ops, gradients, modules, optimizers, graphs, and ops of your own.
// docs/cpp.md begins with it.
#pragma once

#include "smolder/autograd/control_flow.h"
#include "smolder/autograd/engine.h"
#include "smolder/autograd/function.h"
#include "smolder/autograd/library.h"
#include "smolder/autograd/print.h"
#include "smolder/core/counters.h"
#include "smolder/core/safetensors.h"
#include "smolder/graph/graph.h"
#include "smolder/ir/value_ops.h"
#include "smolder/lazy/autocast.h"
#include "smolder/lazy/create.h"
#include "smolder/lazy/explain.h"
#include "smolder/lazy/ops.h"
#include "smolder/lazy/random.h"
#include "smolder/nn/activations.h"
#include "smolder/nn/grad_scaler.h"
#include "smolder/nn/init.h"
#include "smolder/nn/losses.h"
#include "smolder/nn/modules.h"
#include "smolder/nn/optim.h"
#include "smolder/nn/recurrent.h"
#include "smolder/nn/resampling.h"
#include "smolder/nn/spatial.h"

namespace smolder {

using lazy::DeviceMode;
using lazy::EagerMode;
using lazy::GradMode;

}  // namespace smolder
