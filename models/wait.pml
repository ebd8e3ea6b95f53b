/*
Waiting: no wake-up is lost, whoever dies, and wherever the fence stands.

Models WakeSignal (flag, sequence, futex), the waiting loops of LogConsumer and AsyncWaiter, and what SharedAppender,
ExclusiveAppender and ClaimRepair do after the store that makes frames readable; all in src/MappedFileQueues/Log.
docs/DESIGN.md section 5.

There is no time-out here: one would hide every defect for as long as it lasts. The log is a row of frames; a waiter can
go on over published frames and padding, and stops at a free or a claimed one.

Waiter, with nothing to read:
  1. s = acquire load of the sequence;
  2. raise the flag to s + 1 by compare-and-swap, never lower it (a full fence); nothing to do if it is as high already;
  3. if the word "fence needed" says that producers publish without a fence: membarrier, which fences every running thread of
     the registered processes; also when the flag was high already, because who raised it may not have come to its membarrier
     yet;
  4. look again;
  5. futex wait while the sequence is s; then from the start.
  Killed anywhere: the flag may stay raised, which costs the next waker one system call.

Waker (publish, abandon, and repair alike; an exclusive one has set "fence needed" before its first publish):
  1. make the frame readable: a compare-and-swap (full fence), or a release store that may linger in the store buffer
     (-DEXCLUSIVE);
  2. f = load of the flag; 0: nobody waits;
  3. bump the sequence (interlocked);
  4. futex wake all;
  5. clear the flag by compare-and-swap from f.
  Killed before 5: the flag stays raised, so that the next waker does it all again. That message has no waker of its own: the
  waiter's longest sleep of a second covers it, and the next waker does. In the variants with dying wakers, the latecomer is
  that next waker.

What must be true:
  overlooked  when nothing moves any more, no living waiter has a readable frame before it.

variant design                                holds
variant design-dying-claimant                 holds             -DDYING_CLAIMANTS=1 -DWAITERS=1
variant design-dying-waker                    holds             -DDYING_WAKERS=1 -DFRAMES=1
variant design-dying-waiter                   holds             -DDYING_WAITERS=1
variant design-exclusive                      holds             -DEXCLUSIVE
variant design-exclusive-dying-waker          holds             -DEXCLUSIVE -DDYING_WAKERS=1 -DFRAMES=1
variant design-exclusive-dying-waiter         holds             -DEXCLUSIVE -DDYING_WAITERS=1
variant design-one-process-unregistered       holds             -DEXCLUSIVE -DUNREGISTERED_EXCHANGES
variant design-bounded-sleep-no-fence         holds             -DEXCLUSIVE -DNO_BARRIER -DBOUNDED_SLEEP
variant design-everybody-dies                 full-holds        -DDYING_WAITERS=1 -DDYING_WAKERS=1 -DDYING_CLAIMANTS=1 -DFRAMES=1
variant design-dying-claimant-two-waiters     full-holds        -DDYING_CLAIMANTS=1
variant design-two-wakers-one-dies            full-holds        -DDYING_WAKERS=1
variant design-exclusive-two-wakers-one-dies  full-holds        -DEXCLUSIVE -DDYING_WAKERS=1
variant design-three-frames                   full-holds        -DFRAMES=3 -DWAITERS=1
variant witness                               fails:witness     -DWITNESS
variant exclusive-without-fence               fails:overlooked  -DEXCLUSIVE -DNO_BARRIER
variant barrier-before-raise                  fails:overlooked  -DEXCLUSIVE -DBARRIER_BEFORE_RAISE
variant barrier-skipped-when-flag-is-high     fails:overlooked  -DEXCLUSIVE -DBARRIER_SKIPPED_WHEN_HIGH
variant fence-word-read-before-raise          fails:overlooked  -DEXCLUSIVE -DFENCE_WORD_READ_FIRST -DFRAMES=1
variant unregistered-producer                 fails:overlooked  -DEXCLUSIVE -DUNREGISTERED
variant raise-without-fence                   fails:overlooked  -DRAISE_BUFFERED
variant no-second-look                        fails:overlooked  -DNO_SECOND_LOOK
variant sequence-read-after-look              fails:overlooked  -DSEQUENCE_READ_LATE
variant flag-may-be-lowered                   fails:overlooked  -DRAISE_BY_STORE
variant flag-cleared-by-store                 fails:overlooked  -DCLEAR_BY_STORE
variant flag-cleared-first                    fails:overlooked  -DCLEAR_FIRST -DDYING_WAKERS=1
variant wake-before-bump                      fails:overlooked  -DWAKE_BEFORE_BUMP
variant padding-does-not-wake                 fails:overlooked  -DPADDING_IS_SILENT
variant repair-does-not-wake                  fails:overlooked  -DREPAIR_IS_SILENT -DDYING_CLAIMANTS=1
*/

#ifndef FRAMES
#define FRAMES 2
#endif
#ifndef WAITERS
#define WAITERS 2
#endif
#ifndef DYING_WAKERS
#define DYING_WAKERS 0
#endif
#ifndef DYING_WAITERS
#define DYING_WAITERS 0
#endif
#ifndef DYING_CLAIMANTS
#define DYING_CLAIMANTS 0
#endif

/* One producer a frame, and the latecomer's frame behind them. */
#if DYING_WAKERS > 0
#define ALL (FRAMES + 1)
#else
#define ALL FRAMES
#endif

#define FREE     0
#define CLAIMED  1
#define READABLE 2

byte frame[ALL + 1];         /* one more, always free: the end */
byte buffered[ALL];          /* EXCLUSIVE: the frame that is in this producer's store buffer, plus one */
bool claimantDied[ALL];
byte flag = 0, sequence = 0;
bool asleep[WAITERS], gone[WAITERS], raisePending[WAITERS];
byte raiseValue[WAITERS];
byte reached[WAITERS];
byte finished = 0;           /* producers that are through or dead */
byte claims = 0;
byte wakersDied = 0, waitersDied = 0, claimantsDied = 0;
bool fenceNeeded = false;    /* some producer publishes without a fence */
bool overlooked, witness, slept;

#define WAKER_MAY_DIE \
  if :: atomic { me < FRAMES && wakersDied < DYING_WAKERS -> wakersDied++; goto dead } :: true fi
#define WAITER_MAY_DIE \
  if :: atomic { me == 0 && waitersDied < DYING_WAITERS -> waitersDied++; goto dead } :: true fi

inline wakeAll() {
  d_step {
    other = 0;
    do :: other < WAITERS -> asleep[other] = false; other++ :: else -> break od;
    other = 0
  }
}

inline clearFlag() {
#ifdef CLEAR_BY_STORE
  flag = 0
#else
  d_step { if :: flag == f -> flag = 0 :: else -> skip fi }
#endif
}

/* What follows every store that made a frame readable. */
inline wake() {
  f = flag;
  if
  :: f == 0 -> skip
  :: f != 0 ->
     WAKER_MAY_DIE;
#ifdef CLEAR_FIRST
     flag = 0;
     WAKER_MAY_DIE;
#endif
#ifdef WAKE_BEFORE_BUMP
     wakeAll();
     WAKER_MAY_DIE;
     sequence++;
#else
     sequence++;
     WAKER_MAY_DIE;
     wakeAll();
#endif
     WAKER_MAY_DIE;
#ifndef CLEAR_FIRST
     clearFlag();
#endif
     f = 0
  fi
}

inline drain(producer) {
  if
  :: buffered[producer] > 0 -> frame[buffered[producer] - 1] = READABLE; buffered[producer] = 0
  :: else -> skip
  fi
}

#ifdef EXCLUSIVE
/* One after the other, as the producers' lock has it; each publishes one frame. */
proctype Producer(byte me) {
  byte f = 0, other = 0;
  claims == me;
  fenceNeeded = true;                         /* an interlocked instruction, at attach */
#ifdef UNREGISTERED_EXCHANGES
  /* membarrier does not reach the last one's process, so it publishes by an exchange. */
  if :: me == ALL - 1 -> frame[me] = READABLE :: else -> buffered[me] = me + 1 fi;
#else
  buffered[me] = me + 1;
#endif
  WAKER_MAY_DIE;
  wake();
dead:
  /* The lock's next holder comes after a system call of this process, or after its end: the buffer is empty by then. */
  atomic { drain(me); claims++; finished++; f = 0; other = 0 }
}

proctype StoreBuffer(byte me) {
  if
  :: d_step { buffered[me] > 0 -> drain(me) }
  :: claims > me
  fi
}
#else
proctype Producer(byte me) {
  byte f = 0, other = 0, at = 0;
  if
  :: me >= FRAMES -> finished == FRAMES       /* the latecomer */
  :: else -> skip
  fi;
  /* They differ by their number alone, and so may claim in its order. */
  atomic { claims == me -> at = claims; claims++; frame[at] = CLAIMED };
  if
  :: atomic { me < FRAMES && claimantsDied < DYING_CLAIMANTS -> claimantsDied++; claimantDied[at] = true; goto dead }
  :: frame[at] = READABLE                     /* published */
  :: frame[at] = READABLE;                    /* abandoned: padding */
#ifdef PADDING_IS_SILENT
     goto dead
#endif
  fi;
  WAKER_MAY_DIE;
  wake();
dead:
  atomic { finished++; f = 0; other = 0; at = 0 }
}

/* Whoever finds the hole of a dead claimant. */
proctype Repairer() {
  byte f = 0, other = 0, at = 0;
  byte me = FRAMES;                           /* does not die here: its compare-and-swap is its only change */
  if
  :: atomic { claimantDied[0] -> at = 0 }
  :: atomic { claimantDied[1] -> at = 1 }
#if FRAMES > 2
  :: atomic { claimantDied[2] -> at = 2 }
#endif
  :: atomic { finished == ALL && claimantsDied == 0 -> goto dead }
  fi;
  frame[at] = READABLE;
#ifndef REPAIR_IS_SILENT
  wake();
#endif
dead:
  atomic { f = 0; other = 0; at = 0 }
}
#endif

#ifdef EXCLUSIVE
inline fenceProducers() {
  d_step {
    other = 0;
    do
    :: other < ALL ->
#ifdef UNREGISTERED
       if :: other != ALL - 1 -> drain(other) :: else -> skip fi;
#else
       drain(other);
#endif
       other++
    :: else -> break
    od;
    other = 0
  }
}
#endif

inline membarrier() {
#if defined(EXCLUSIVE) && !defined(NO_BARRIER)
#ifndef FENCE_WORD_READ_FIRST
  needed = fenceNeeded;
#endif
  if :: needed -> fenceProducers(); needed = false :: else -> skip fi
#else
  skip
#endif
}

inline raise() {
#ifdef RAISE_BUFFERED
  d_step { raiseValue[me] = s + 1; raisePending[me] = true }
#elif defined(RAISE_BY_STORE)
  flag = s + 1
#else
  d_step { if :: flag < s + 1 -> flag = s + 1 :: else -> skip fi }
#endif
}

/* Goes on over what is readable; `moved` says whether there was anything. */
inline look() {
  atomic {
    moved = frame[reached[me]] == READABLE;
    do :: frame[reached[me]] == READABLE -> reached[me]++ :: else -> break od
  }
}

proctype Waiter(byte me) {
  byte s = 0, other = 0;
  bool moved = false, needed = false;
  do
  :: look();
     if
     :: moved -> moved = false
     :: !moved ->
        WAITER_MAY_DIE;
        s = sequence;
#ifdef FENCE_WORD_READ_FIRST
        needed = fenceNeeded;
#endif
#ifdef BARRIER_BEFORE_RAISE
        membarrier();
#endif
#ifdef BARRIER_SKIPPED_WHEN_HIGH
        if
        :: flag >= s + 1 -> skip
        :: else -> raise(); WAITER_MAY_DIE; membarrier()
        fi;
#else
        raise();
        WAITER_MAY_DIE;
#ifndef BARRIER_BEFORE_RAISE
        membarrier();
#endif
#endif
#ifdef NO_SECOND_LOOK
        skip;
#else
        look();
#endif
#ifdef SEQUENCE_READ_LATE
        s = sequence;
#endif
        if
        :: moved -> d_step { moved = false; s = 0 }
        :: !moved ->
           atomic { if :: sequence == s -> asleep[me] = true; slept = true :: else -> skip fi };
           WAITER_MAY_DIE;
#ifdef BOUNDED_SLEEP
           if
           :: atomic { !asleep[me] -> s = 0 }
           :: atomic {
                timeout -> asleep[me] = false; s = 0;
                if :: finished == ALL && frame[reached[me]] != READABLE -> goto dead :: else -> skip fi
              }
           fi
#else
endAsleep: atomic { !asleep[me] -> s = 0 }
#endif
        fi
     fi
  od;
dead:
  atomic { asleep[me] = false; gone[me] = reached[me] < ALL && waitersDied > 0; s = 0; other = 0; moved = false; needed = false }
}

#ifdef RAISE_BUFFERED
proctype RaiseBuffer(byte me) {
endBuffer:
  do
  :: d_step {
       raisePending[me] -> raisePending[me] = false;
       if :: flag < raiseValue[me] -> flag = raiseValue[me] :: else -> skip fi
     }
  od
}
#endif

/* Looks when nothing else can move. */
proctype Judge() {
  byte each = 0;
endJudge:
  timeout;
  atomic {
    assert(finished == ALL);
    do
    :: each < WAITERS ->
       overlooked = !gone[each] && frame[reached[each]] == READABLE;
       assert(!overlooked);
       each++
    :: else -> break
    od;
#ifdef WITNESS
    /* Not a defect: somebody does sleep, and both publishes wake. */
    witness = slept && sequence == 2;
    assert(!witness)
#endif
  }
}

init {
  atomic {
    byte id = 0;
    do :: id < WAITERS -> run Waiter(id); id++ :: else -> break od;
    id = 0;
    do
    :: id < ALL ->
       run Producer(id);
#ifdef EXCLUSIVE
       run StoreBuffer(id);
#endif
       id++
    :: else -> break
    od;
#if DYING_CLAIMANTS > 0
    run Repairer();
#endif
#ifdef RAISE_BUFFERED
    id = 0;
    do :: id < WAITERS -> run RaiseBuffer(id); id++ :: else -> break od;
#endif
#ifndef BOUNDED_SLEEP
    run Judge()
#endif
  }
}
