/*
Dispose against calls in flight: nothing is unmapped under a copy, a read or a span that is out.

Models AppendLane, LogAppender.Enter, LaneDrain (producers), LogReader.Close and LogConsumer (consumers); all in
src/MappedFileQueues/Log. docs/DESIGN.md section 1. Each thread here has a lane (or a reader) of its own: an in-call cell, a
bound, and a reference on the mapping; giving the last reference back unmaps.

A call may not pay for an interlocked instruction, so its cell is a plain store, which may linger in the store buffer of its
core while the load of the bound, which comes later in the program, is already done. Dispose pays instead: the process-wide
barrier empties every buffer.

Call:
  1. store 1 to the cell (plain);
  2. load the bound and compare; enough room: go on with 4;
  3. rare path: fence, look at `disposed`. Set: leave by 6 and throw. Else store a new bound (plain, it is the thread's own),
     fence, look at `disposed` again: a Dispose that took the bound away in between must not be undone. Set: bound to 0,
     leave;
  4. touch the mapping (copy, publish, read);
  5. a read that hands out a span has noted so before the call ends; the user reads the span outside any call;
  6. store 0 to the cell (release: not before the touches of 4).
  Nothing mapped is looked at before 1. A claim is a call that is open while user code runs; its thread ends it by taking it
  (compare-and-swap from open), publishes, and moves on to the next place. If it was taken away, user code may still write.
  The thread's next call ends its span. If it finds the reader disposed and its own span left behind, it gives the
  reference back.

Dispose, from any thread:
  0. the thread's own open claim: take it, turn it into padding, say that its mapping stays, end the call; all this before it
     waits for another Dispose, which may be waiting for that claim;
  1. set `disposed`, then set every bound to 0;
  2. the process-wide barrier: every cell that was stored before a load of an older bound is visible now;
  3. wait until each cell is 0; an open claim whose time is up is taken, turned into padding, and its mapping stays;
  4. a span is out: leave the reference to that thread. None: give the reference back;
  5. let the slot's and the producers' lock go, last.

What must be true:
  crashed    nobody touches a mapping without a reference on it;
  unlocked   nobody stores into the log once the lock is gone;
  robbed     nobody but who took the claim touches the frame at the lane's place;
  twice      a reference is given back once at most;
  leaked     all references are back once Dispose has ended and every thread has called once more;
  stuck      nobody waits for ever (an invalid end state).

variant design                        holds
variant design-three-threads          full-holds              -DTHREADS=3 -DCALLS=2 -DNO_CLAIMS
variant design-three-with-claims      full-holds              -DTHREADS=3 -DCALLS=1
variant design-many-calls             full-holds              -DCALLS=5
variant witness                       fails:witness           -DWITNESS
variant no-barrier                    fails:crashed           -DNO_BARRIER
variant barrier-before-bound          fails:crashed           -DBARRIER_BEFORE_BOUND
variant barrier-after-wait            fails:crashed           -DBARRIER_AFTER_WAIT
variant bound-read-before-cell        fails:crashed           -DBOUND_READ_FIRST
variant check-after-unmap             fails:crashed           -DCHECK_AFTER_UNMAP
variant bound-raised-without-recheck  fails:crashed           -DNO_RECHECK
variant recheck-without-fence         fails:crashed           -DRECHECK_WITHOUT_FENCE
variant cell-cleared-too-early        fails:crashed|unlocked  -DCELL_CLEARED_EARLY
variant span-not-counted              fails:crashed           -DSPAN_NOT_COUNTED
variant span-noted-after-call         fails:crashed           -DSPAN_NOTED_LATE
variant look-before-mark              fails:crashed           -DLOOK_BEFORE_MARK
variant claim-padded-without-taking   fails:robbed|unlocked   -DPADDED_WITHOUT_TAKING
variant fenced-claim-unmapped         fails:crashed           -DFENCED_UNMAPPED
variant own-claim-unmapped            fails:crashed           -DOWN_CLAIM_UNMAPPED
variant own-claim-kept-too-late       fails:crashed           -DKEPT_SAID_LATE
variant own-claim-after-the-lock      fails:stuck             -DOWN_CLAIM_AFTER_LOCK
variant lock-released-first           fails:unlocked          -DLOCK_RELEASED_FIRST
*/

#ifndef THREADS
#define THREADS 2
#endif
#ifndef CALLS
#define CALLS 2
#endif

/* What a store buffer holds: one store at a time, to the cell or to the bound. */
#define NOTHING   0
#define CELL_SET  1
#define CELL_CLEARED 2
#define BOUND_SET 3

/* A lane's claim. */
#define NONE   0
#define OPEN   1
#define FENCED 2

byte buffered[THREADS];
bool cell[THREADS];                   /* as others see it                                          */
byte bound[THREADS] = 1;              /* 0: taken away; 1: the next call wants more room; 2: room  */
bool reference[THREADS] = true;
bool span[THREADS];                   /* a message is in hand whose span was noted                 */
bool leftBehind[THREADS];
byte claim[THREADS];
bool moved[THREADS];                  /* the lane's place is no longer that of its last claim      */
bool kept[THREADS];                   /* a claim was taken away: its mapping stays                 */
bool patient;                         /* LockTimeout is infinite                                   */
bool disposed = false, locked = true, ended = false;
byte through = 0;
bool late;

bool crashed, unlocked, robbed, twice, leaked, witness;

inline drain(thread) {
  if
  :: buffered[thread] == CELL_SET -> cell[thread] = true
  :: buffered[thread] == CELL_CLEARED -> cell[thread] = false
  :: buffered[thread] == BOUND_SET -> bound[thread] = 2
  :: else -> skip
  fi;
  buffered[thread] = NOTHING
}

inline store(what) { atomic { buffered[me] == NOTHING -> buffered[me] = what } }
inline fence()     { d_step { drain(me) } }
inline touch()     { d_step { crashed = !reference[me]; assert(!crashed) } }

inline giveBack(thread) {
  twice = !reference[thread];
  assert(!twice);
  reference[thread] = false
}

/* A call that finds everything at an end. */
inline leaveDisposed() {
  store(CELL_CLEARED);
  fence();
  d_step { if :: leftBehind[me] -> giveBack(me); leftBehind[me] = false; span[me] = false; late = true :: else -> skip fi }
}

inline rarePath() {
  fence();
  if
  :: disposed -> room = 0
  :: else ->
     store(BOUND_SET);
#ifndef NO_RECHECK
#ifndef RECHECK_WITHOUT_FENCE
     fence();
#endif
     if
     :: disposed -> fence(); bound[me] = 0; room = 0
     :: else -> room = 2
     fi
#else
     room = 2
#endif
  fi
}

/* Of a claim that the caller has taken. */
inline pad(thread) {
  d_step {
    crashed = !reference[thread];
    assert(!crashed);
    robbed = moved[thread];
    assert(!robbed)
  }
}

/* User code disposes its own producer, and goes on. */
inline disposeInClaim() {
#ifdef OWN_CLAIM_AFTER_LOCK
  ended;
#endif
  if
  :: atomic { claim[me] == OPEN -> claim[me] = FENCED };
     pad(me);
#if !defined(OWN_CLAIM_UNMAPPED) && !defined(KEPT_SAID_LATE)
     kept[me] = true;
#endif
     store(CELL_CLEARED);
#ifdef KEPT_SAID_LATE
     kept[me] = true;
#endif
  :: claim[me] == FENCED -> skip
  fi;
  ended
}

proctype Thread(byte me) {
  byte left = CALLS, room = 0;
  do
  :: left == 0 -> break
  :: left > 0 ->
     left--;
#ifdef LOOK_BEFORE_MARK
     if :: disposed -> skip :: !disposed -> touch() fi;
#endif
#ifdef BOUND_READ_FIRST
     room = bound[me];
     store(CELL_SET);
#else
     store(CELL_SET);
     /* Its own store in the buffer counts for itself. */
     atomic { room = (buffered[me] == BOUND_SET -> 2 : bound[me]) };
#endif
     if
     :: room == 2 -> skip
     :: room != 2 -> rarePath()
     fi;
     if
     :: room == 0 -> leaveDisposed()
     :: room != 0 ->
        span[me] = false;
#ifdef CELL_CLEARED_EARLY
        store(CELL_CLEARED);
#endif
        if
        :: touch();                                            /* an append */
           d_step { unlocked = !locked; assert(!unlocked) };
           store(CELL_CLEARED)
        :: touch();                                            /* a read; its span is read after the call */
#ifdef SPAN_NOTED_LATE
           store(CELL_CLEARED);
           span[me] = true;
#else
           span[me] = true;
           store(CELL_CLEARED);
#endif
           touch()
#ifndef NO_CLAIMS
        :: atomic { claim[me] = OPEN; moved[me] = false };     /* a claim; user code writes                 */
           touch();
           if
           :: true -> disposeInClaim()
           :: skip
           fi;
           touch();
           if
           :: atomic { claim[me] == OPEN -> claim[me] = NONE };
              touch();
              d_step { unlocked = !locked; assert(!unlocked) };
              moved[me] = true;
              store(CELL_CLEARED)
           :: claim[me] == FENCED -> skip
           fi
#endif
        fi
     fi;
     room = 0
  od;
  /* One more call, after Dispose. */
  ended;
  store(CELL_SET);
  leaveDisposed();
  through++
}

proctype StoreBuffer(byte me) {
endBuffer:
  do
  :: d_step { buffered[me] != NOTHING -> drain(me) }
  od
}

inline barrier() {
  d_step {
    each = 0;
    do :: each < THREADS -> drain(each); each++ :: else -> break od;
    each = 0
  }
}

inline takeBounds() {
  each = 0;
  do :: each < THREADS -> bound[each] = 0; each++ :: else -> break od;
  each = 0
}

inline waitForCalls() {
  each = 0;
  do
  :: each < THREADS ->
     if
     :: !cell[each] -> each++
#ifdef PADDED_WITHOUT_TAKING
     :: !patient && claim[each] == OPEN -> pad(each); kept[each] = true; each++
#else
     :: atomic { !patient && claim[each] == OPEN -> claim[each] = FENCED };
        pad(each);
        kept[each] = true;
        each++
#endif
     fi
  :: else -> break
  od;
  each = 0
}

inline giveBackOrLeave() {
  each = 0;
  do
  :: each < THREADS ->
     d_step {
#ifdef SPAN_NOT_COUNTED
       giveBack(each);
#else
       if
#ifndef FENCED_UNMAPPED
       :: kept[each] -> skip
#endif
       :: span[each] -> leftBehind[each] = true
       :: else -> giveBack(each)
       fi;
#endif
       each++
     }
  :: else -> break
  od;
  each = 0
}

proctype Disposer() {
  byte each = 0;
  if :: patient = true :: patient = false fi;
  disposed = true;
#ifdef LOCK_RELEASED_FIRST
  locked = false;
#endif
#ifdef BARRIER_BEFORE_BOUND
  barrier();
#endif
#ifdef CHECK_AFTER_UNMAP
  giveBackOrLeave();
#endif
  takeBounds();
#if !defined(NO_BARRIER) && !defined(BARRIER_BEFORE_BOUND) && !defined(BARRIER_AFTER_WAIT)
  barrier();
#endif
  waitForCalls();
#ifdef BARRIER_AFTER_WAIT
  barrier();
#endif
#ifndef CHECK_AFTER_UNMAP
  giveBackOrLeave();
#endif
  locked = false;
  ended = true;
  through == THREADS;
  d_step {
    each = 0;
    do :: each < THREADS -> leaked = leaked || (reference[each] && !kept[each]); each++ :: else -> break od;
    assert(!leaked);
#ifdef WITNESS
    /* Not a defect: a span kept its mapping, and its thread gave it back. */
    witness = late;
    assert(!witness);
#endif
    skip
  }
}

init {
  atomic {
    byte id = 0;
    do :: id < THREADS -> run Thread(id); run StoreBuffer(id); id++ :: else -> break od;
    run Disposer()
  }
}
