// Loads what takes long and is soon wanted, on threads of its own from when a device is first used: libraries are
// opened while the driver makes a context. Only where somebody waits for it before the process ends: a library that
// opens registers what it does at exit, and `exit` would take it down while its thread still sets it up.
#pragma once

namespace smolder::cuda {

/// Adds such work; what it throws is dropped, since whoever needs the library is told. For static initialisers.
void add_preload(void (*work)(int device));
/// Starts it, once a process: NVRTC, and what was added, side by side. Nothing without a promise to finish it.
void start_preload(int device);
/// Promises that `finish_preload` is called before `exit`, as Python's atexit does.
void promise_to_finish_preload();
/// Waits for what was started; nothing is, from now on.
void finish_preload();

}  // namespace smolder::cuda
