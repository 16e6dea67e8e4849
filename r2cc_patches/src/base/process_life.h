// What of ours lives as long as the process. Such objects are made with new and never destroyed: the order in which
// static objects of several libraries end is nobody's to choose, and our threads may still run then.
#pragma once

#include <functional>

namespace r2cc {

/// True in a forked child of a process in which something of ours ran: its threads are not here, and its sockets and
/// queue pairs are the parent's. Nothing of ours acts there. A load, no system call.
bool inChild();

/// Another in each such child, and in its own: what was made under another number is an ancestor's. A load.
unsigned processNumber();

/// Something of ours (threads, lanes, sessions) begins (1) or ends (-1) to run: a child forked in between is one in the
/// sense of inChild(); one forked before or after may use the library as its own.
void somethingRuns(int begins);

/// `last` is called once when the process ends without our having been closed, by exit() or a return from main; never
/// in a child. It must be short, and wait for nothing.
void atProcessEnd(std::function<void()> last);
/// It ends like that just now: memory that is not ours may go at any moment.
bool processEnds();

}  // namespace r2cc
