// What takes long and is soon wanted, on threads of its own from when a device is first used: libraries are opened
// while the driver makes a context.
#pragma once

namespace smolder::cuda {

/// Adds such work; what it throws is dropped, since whoever needs the library is told. For static initialisers.
void add_preload(void (*work)(int device));
/// Starts it: NVRTC, and what was added, side by side. Once a process.
void start_preload(int device);
/// Says that `finish_preload` is called before anything else at exit, as Python's atexit does. Else work must not make
/// what a library takes down at exit: nothing comes before that.
void promise_to_finish_preload();
bool is_preload_finished_first();
/// Waits for what was started. A process that ends meanwhile must not take down the libraries that it uses: Python's
/// atexit comes before all that they do at exit.
void finish_preload();
/// Called by such work when it has opened a library: the process does not end before all work is done, and so before
/// what the library does at exit.
void finish_preload_before_exit();

}  // namespace smolder::cuda
