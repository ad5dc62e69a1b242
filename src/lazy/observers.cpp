#include "smolder/lazy/observers.h"

namespace smolder::lazy {

SMOLDER_THREAD_LOCAL CaptureObserver* CaptureObserver::current_ = nullptr;
SMOLDER_THREAD_LOCAL BranchObserver* BranchObserver::current_ = nullptr;

}  // namespace smolder::lazy
