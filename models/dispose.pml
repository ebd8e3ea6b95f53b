/*
Dispose against calls in flight: nothing is unmapped under a copy, a read or a span that is out.

Models QueueLifetime (the in-call cells, the bound, Dispose) as SharedAppender, ExclusiveAppender and LogReader use it; all in
src/MappedFileQueues/Log. docs/PROTOCOL.md section 1.

A call may not pay for an interlocked instruction, so its cell is a plain store, which may linger in the store buffer of its
core while the load of the bound, which comes later in the program, is already done. Dispose pays instead: the process-wide
barrier empties every buffer. A cell is 0 (outside), 1 (in a call) or 2 (outside, but a span that the thread read is still
out).

Call:
  1. store 1 to the thread's cell (plain);
  2. load the bound and compare; below: go on. Else the slow path: 0 means disposed, leave by 5 and throw; otherwise more room
     is made, and the bound is raised by compare-and-swap from the value that was loaded, so never from 0;
  3. touch the mapping (copy, publish, read);
  4. a read hands out a span: the cell becomes 2; the user reads it outside any call;
  5. otherwise store 0 to the cell (release: not before the touches of 3).
  The thread's next call ends the span by its step 1. A call that finds the queue disposed, after 5, takes the lifetime's lock
  and unmaps what was left behind, unless another span is out.

Dispose, from any thread:
  1. set disposed, then set the bound to 0;
  2. the process-wide barrier: every cell that was stored before a load of an older bound is visible now;
  3. wait until no cell is 1;
  4. under the lifetime's lock look at all cells once more: if one is 2, the mapping is left behind for that thread; otherwise
     unmap;
  5. let the slot's and the producers' lock go, last.

What must be true:
  crashed    nobody touches what is unmapped;
  unlocked   nobody stores into the log once the lock is gone;
  twice      the mapping is unmapped once at most;
  leaked     the mapping is gone once Dispose has ended and every thread has called again after it;
  stuck      nobody waits for ever (an invalid end state).

variant design                       holds
variant design-three-threads         full-holds            -DTHREADS=3
variant design-many-calls            full-holds            -DCALLS=4
variant witness                      fails:witness         -DWITNESS
variant no-barrier                   fails:crashed         -DNO_BARRIER
variant barrier-before-bound         fails:crashed         -DBARRIER_BEFORE_BOUND
variant barrier-after-look           fails:crashed         -DBARRIER_AFTER_LOOK
variant bound-read-before-cell       fails:crashed         -DBOUND_READ_FIRST
variant check-after-unmap            fails:crashed         -DCHECK_AFTER_UNMAP
variant bound-raised-by-store        fails:crashed         -DBOUND_RAISED_BY_STORE
variant cell-cleared-too-early       fails:crashed|unlocked  -DCELL_CLEARED_EARLY
variant span-not-counted             fails:crashed         -DSPAN_NOT_COUNTED
variant lock-released-first          fails:unlocked        -DLOCK_RELEASED_FIRST
*/

#ifndef THREADS
#define THREADS 2
#endif
#ifndef CALLS
#define CALLS 3
#endif

#define OUTSIDE 0
#define IN_CALL 1
#define SPAN_OUT 2
#define NOTHING 255

byte cell[THREADS];                   /* as Dispose sees it                                      */
byte buffered[THREADS];               /* a store to the cell that has not left its core's buffer */
byte bound = 1;                       /* 0: disposed; 1: the next call wants more room; 2: room  */
bool disposed = false, mapped = true, locked = true;
bool leftBehind = false;              /* Dispose ended without unmapping, for a span's sake      */
bool ended = false, late = false;
byte through = 0;

bool crashed, unlocked, twice, leaked, witness;

/* One buffered store at a time: the buffer is first in, first out, and to one word. */
inline storeCell(value) {
  atomic { buffered[me] == NOTHING -> buffered[me] = value }
}

inline touch() {
  d_step { crashed = !mapped; assert(!crashed) }
}

/* How a call leaves that found the queue disposed. Nothing here is on the fast path, so that it may empty the store buffer. */
inline leaveDisposed() {
  storeCell(OUTSIDE);
  buffered[me] == NOTHING;
  d_step {
    other = 0; spanOut = false;
    do :: other < THREADS -> spanOut = spanOut || cell[other] == SPAN_OUT; other++ :: else -> break od;
    if
    :: leftBehind && !spanOut -> twice = !mapped; assert(!twice); mapped = false; leftBehind = false; late = true
    :: else -> skip
    fi;
    other = 0; spanOut = false
  }
}

proctype Thread(byte me) {
  byte left = CALLS, seen = 0, other = 0;
  bool spanOut = false;
  do
  :: left == 0 -> break
  :: left > 0 ->
     left--;
#ifdef BOUND_READ_FIRST
     seen = bound;
     storeCell(IN_CALL);
#else
     storeCell(IN_CALL);
     seen = bound;
#endif
     if
     :: seen == 1 ->                                           /* more room is wanted */
#ifdef BOUND_RAISED_BY_STORE
        if :: disposed -> seen = 0 :: else -> skip fi;
        if :: seen != 0 -> bound = 2; seen = 2 :: else -> skip fi
#else
        d_step { if :: bound == 1 -> bound = 2; seen = 2 :: else -> seen = bound fi }
#endif
     :: seen != 1 -> skip
     fi;
     if
     :: seen == 0 -> leaveDisposed()
     :: seen != 0 ->
#ifdef CELL_CLEARED_EARLY
        storeCell(OUTSIDE);
#endif
        if
        :: touch();                                            /* an append */
           d_step { unlocked = !locked; assert(!unlocked) };
           storeCell(OUTSIDE)
        :: touch();                                            /* a read; its span is read after the call */
           storeCell(SPAN_OUT);
           touch()
        fi
     fi;
     seen = 0
  od;
  /* One more call, after Dispose. */
  ended;
  storeCell(IN_CALL);
  leaveDisposed();
  through++
}

proctype StoreBuffer(byte me) {
endBuffer:
  do
  :: d_step { buffered[me] != NOTHING -> cell[me] = buffered[me]; buffered[me] = NOTHING }
  od
}

inline barrier() {
  d_step {
    each = 0;
    do
    :: each < THREADS ->
       if :: buffered[each] != NOTHING -> cell[each] = buffered[each]; buffered[each] = NOTHING :: else -> skip fi;
       each++
    :: else -> break
    od;
    each = 0
  }
}

inline waitForCalls() {
  each = 0;
  do
  :: each < THREADS -> cell[each] != IN_CALL; each++
  :: else -> break
  od;
  each = 0
}

inline unmapOrLeave() {
  d_step {
    each = 0; spanOut = false;
    do :: each < THREADS -> spanOut = spanOut || cell[each] == SPAN_OUT; each++ :: else -> break od;
    each = 0;
#ifdef SPAN_NOT_COUNTED
    spanOut = false;
#endif
    if :: spanOut -> leftBehind = true :: else -> mapped = false fi;
    spanOut = false
  }
}

proctype Disposer() {
  byte each = 0;
  bool spanOut = false;
  disposed = true;
#ifdef LOCK_RELEASED_FIRST
  locked = false;
#endif
#ifdef BARRIER_BEFORE_BOUND
  barrier();
#endif
#ifdef CHECK_AFTER_UNMAP
  unmapOrLeave();
#endif
  bound = 0;
#if !defined(NO_BARRIER) && !defined(BARRIER_BEFORE_BOUND) && !defined(BARRIER_AFTER_LOOK)
  barrier();
#endif
  waitForCalls();
#ifdef BARRIER_AFTER_LOOK
  barrier();
#endif
#ifndef CHECK_AFTER_UNMAP
  unmapOrLeave();
#endif
  locked = false;
  ended = true;
  through == THREADS;
  d_step {
    leaked = mapped;
    assert(!leaked);
#ifdef WITNESS
    /* Not a defect: the mapping was left behind for a span, and the thread of that span unmapped it. */
    witness = late && bound == 0;
    assert(!witness);
#endif
    skip
  }
}

init {
  atomic {
    byte id = 0;
    do :: id < THREADS -> buffered[id] = NOTHING; run Thread(id); run StoreBuffer(id); id++ :: else -> break od;
    run Disposer()
  }
}
