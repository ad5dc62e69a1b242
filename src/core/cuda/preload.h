// What takes long and is soon wanted, on a thread of its own from when a device is first used: libraries are opened
// while the driver makes a context.
#pragma once

namespace smolder::cuda {

/// Adds such work; what it throws is dropped, since whoever needs the library is told. For static initialisers.
void add_preload(void (*work)(int device));
/// Starts it: NVRTC, then what was added, one after the other. Once a process.
void start_preload(int device);
/// Waits for what was started. A process that ends meanwhile must not take down the libraries that it uses: Python's
/// atexit comes before all that they do at exit.
void finish_preload();
/// Called by such work when it has opened a library: the process does not end before all work is done, and so before
/// what the library does at exit.
void finish_preload_before_exit();

}  // namespace smolder::cuda
