/*
Waiting: no wake-up is lost, whoever dies, and wherever the fence stands.

Models WakeSignal (flag, sequence, futex), the waiting loops of LogConsumer, AsyncWaiter and GroupMember, and what
SharedAppender, ExclusiveAppender, ClaimRepair and GroupLeases do after the store that gives a waiter something; all in
src/MappedFileQueues/Log. docs/DESIGN.md sections 5 and 10.

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

Members of a group (-DGROUP) wait in the same way, also for messages that come back. With the tags of the code:

Giver (Reject; GiveBackAll at Dispose; TakeOver and LookAtSingle, when it finds a death):
  1 GroupSingleTaken: a single becomes filling (P51);  2 lower the hint "earliest due" (P54);
  3 GroupBitMoved: the message leaves its range (P52);  4 the single waits (P51);
  5 GroupReturned: lower the hint again (P54);          6 the waker's 2 to 5.
  A single that is rejected: 2, 4, 5, 6; a dead owner's: 4, 5, 6.
Member (TryWait), after the waiter's 1 to 3:
  4 take: where the hint says that one is due, the first single that waits, to held (P51); when none does, raise the hint if it
    is what was read (P54); then a new message (P50);
  5 look at the owners: give back what the dead have; a single that waits lowers the hint; note whether others hold something;
  6 sleep as above, but not while the hint says that one is due, and 100 ms at most while others hold something.
Member that waits without a thread (GroupRead): 4 and 5 in its call, before the waiter's 1 and 2. Then it looks only at the hint
  and for new messages. Where others were handed some since its step 4, they hold something.
The 100 ms are in the model: a sleep ends by itself when somebody has died since the look. A second is not: a scan that comes to
its raise late hides what came back meanwhile, until somebody looks (variant scan-hides-single).

What must be true:
  overlooked  when nothing moves any more, no living waiter has a readable frame before it, or a message that nobody alive holds.

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
variant design-group                          holds             -DGROUP -DREJECTS=1 -DIN_HAND -DLEAVES=1
variant design-group-release                  holds             -DGROUP -DLEAVES=1
variant design-group-death                    holds             -DGROUP -DDEATHS=1
variant design-group-death-found              holds             -DGROUP -DDEATHS=1 -DIN_HAND -DLEAVES=1 -DWAITERS=3
variant design-group-without-thread           holds             -DGROUP -DDEATHS=1 -DASYNC
variant design-group-bounded-sleep            holds             -DGROUP -DIN_HAND -DLEAVES=2 -DWAITERS=3 -DASYNC -DBOUNDED_SLEEP
variant design-group-rejects                  full-holds        -DGROUP -DREJECTS=1 -DLEAVES=1
variant design-group-rejects-death            full-holds        -DGROUP -DREJECTS=1 -DDEATHS=1
variant design-group-rejects-without-thread   full-holds        -DGROUP -DREJECTS=1 -DDEATHS=1 -DASYNC
variant design-group-two-messages             full-holds        -DGROUP -DMSGS=2 -DLEAVES=1
variant witness                               fails:witness     -DWITNESS
variant witness-group                         fails:witness     -DWITNESS -DGROUP -DREJECTS=1 -DDEATHS=1
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
variant reject-does-not-wake                  fails:overlooked  -DGROUP -DREJECTS=1 -DIN_HAND -DLEAVES=1 -DREJECT_IS_SILENT
variant release-does-not-wake                 fails:overlooked  -DGROUP -DLEAVES=1 -DRELEASE_IS_SILENT
variant found-death-does-not-wake             fails:overlooked  -DGROUP -DIN_HAND -DDEATHS=1 -DLEAVES=1 -DWAITERS=3 -DFIND_SILENT
variant wake-before-single-waits              fails:overlooked  -DGROUP -DLEAVES=1 -DWAKE_BEFORE_WAITING
variant member-looks-before-it-announces      fails:overlooked  -DGROUP -DLEAVES=1 -DLOOK_FIRST
variant member-does-not-look-at-owners        fails:overlooked  -DGROUP -DDEATHS=1 -DOWNERS_IGNORED
variant member-sleeps-though-due              fails:overlooked  -DGROUP -DLEAVES=2 -DIN_HAND -DWAITERS=3 -DDUE_IGNORED
variant hand-outs-to-others-unseen            fails:overlooked  -DGROUP -DDEATHS=1 -DASYNC -DNEXT_IGNORED
variant scan-hides-single                     fails:overlooked  -DGROUP -DIN_HAND -DLEAVES=2 -DWAITERS=3 -DASYNC
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
#ifndef GROUP
byte reached[WAITERS];
#endif
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

inline raise() {
#ifdef RAISE_BUFFERED
  d_step { raiseValue[me] = s + 1; raisePending[me] = true }
#elif defined(RAISE_BY_STORE)
  flag = s + 1
#else
  d_step { if :: flag < s + 1 -> flag = s + 1 :: else -> skip fi }
#endif
}

#ifdef GROUP
#ifndef MSGS
#define MSGS 1
#endif
#ifndef DEATHS
#define DEATHS 0
#endif
#ifndef REJECTS
#define REJECTS 0
#endif
#ifndef LEAVES
#define LEAVES 0
#endif

/* Of a range, that is its only message. */
#define OUT     1
#define ENDED   2

/* Of a single. There is one a message. */
#define FILLING 1
#define WAITING 2
#define HELD    3

byte published = 0, next = 0;
byte range[MSGS], rangeOwner[MSGS], single[MSGS], singleOwner[MSGS];
bool hasMoved[MSGS];         /* its bit in the range */
bool acked[MSGS];
bool due = false;            /* the hint "earliest due": now, or none */
bool killed[WAITERS], othersHold[WAITERS];
byte died = 0, rejected = 0, left = 0;

/* Members differ by their number alone: the first one may die, and the last one never leaves. */
#define MEMBER_MAY_DIE \
  if :: atomic { me == 0 && died < DEATHS -> died++; killed[me] = true; goto dead } :: true fi
#define MAY_LEAVE (left < LEAVES && me != WAITERS - 1)
#undef WAKER_MAY_DIE
#define WAKER_MAY_DIE MEMBER_MAY_DIE

#ifdef ASYNC
#define IS_ASYNC (me == WAITERS - 1)
#else
#define IS_ASYNC false
#endif
#ifdef REJECT_IS_SILENT
#define REJECT_WAKES false
#else
#define REJECT_WAKES true
#endif
#ifdef RELEASE_IS_SILENT
#define RELEASE_WAKES false
#else
#define RELEASE_WAKES true
#endif
#ifdef FIND_SILENT
#define FINDER_WAKES false
#else
#define FINDER_WAKES true
#endif

/* Giver's 5 and 6. */
inline returned(wakes) {
  due = true;
  MEMBER_MAY_DIE;
  if :: wakes -> wake() :: else -> skip fi
}

/* Giver's 4 to 6. */
inline makeWait(which, wakes) {
#ifdef WAKE_BEFORE_WAITING
  returned(wakes);
  single[which] = WAITING
#else
  single[which] = WAITING;
  MEMBER_MAY_DIE;
  returned(wakes)
#endif
}

inline giveBackOfRange(which, wakes) {
  d_step { single[which] = FILLING; singleOwner[which] = me };
  MEMBER_MAY_DIE;
  due = true;
  MEMBER_MAY_DIE;
  hasMoved[which] = true;
  MEMBER_MAY_DIE;
  makeWait(which, wakes);
  MEMBER_MAY_DIE;
  range[which] = ENDED
}

inline giveBack(which, wakes) {
  if
  :: isSingle -> due = true; MEMBER_MAY_DIE; makeWait(which, wakes)
  :: else -> giveBackOfRange(which, wakes)
  fi
}

/* Member's 4; a scan and its compare-and-swap are one step, because a scan whose compare-and-swap fails is made again. */
inline take() {
  atomic { wasDue = due; got = 0; at = 0 };
  if
  :: wasDue ->
     do
     :: at < MSGS ->
        if
        :: atomic { single[at] == WAITING -> single[at] = HELD; singleOwner[at] = me; isSingle = true; got = at + 1 };
           break
        :: else -> at++
        fi
     :: else -> break
     od;
     if :: got == 0 -> due = false :: else -> skip fi
  :: else -> skip
  fi;
  atomic { at = 0; wasDue = false };
  if
  :: atomic {
       got == 0 && next < published ->
       range[next] = OUT; rangeOwner[next] = me; isSingle = false; got = next + 1; next++
     }
  :: else -> skip
  fi
}

/* Member's 5. */
inline lookAtOwners() {
  atomic { diedBefore = died; othersHold[me] = false; hasChanged = false; at = 0 };
  do
  :: at < MSGS ->
     if
     :: atomic { range[at] == OUT && rangeOwner[at] != me && killed[rangeOwner[at]] -> rangeOwner[at] = me };
        MEMBER_MAY_DIE;
        if
        :: !hasMoved[at] -> giveBackOfRange(at, FINDER_WAKES)
        :: hasMoved[at] && single[at] == FILLING -> makeWait(at, FINDER_WAKES); range[at] = ENDED
        :: else -> range[at] = ENDED
        fi;
        hasChanged = true
     :: range[at] == OUT && rangeOwner[at] != me && !killed[rangeOwner[at]] -> othersHold[me] = true
     :: else -> skip
     fi;
     at++
  :: else -> break
  od;
  at = 0;
  do
  :: at < MSGS ->
     if
     :: single[at] == WAITING -> due = true
     :: atomic { single[at] == HELD && killed[singleOwner[at]] -> single[at] = WAITING };
        MEMBER_MAY_DIE;
        returned(FINDER_WAKES);
        hasChanged = true
     :: (single[at] == HELD || single[at] == FILLING) && singleOwner[at] != me && !killed[singleOwner[at]] ->
        othersHold[me] = true
     :: else -> skip
     fi;
     at++
  :: else -> break
  od;
  at = 0
}

/* What becomes of the message that it has. Who leaves may live on, but asks for no message any more. */
inline use() {
  at = got - 1;
  MEMBER_MAY_DIE;
  if
  :: atomic { acked[at] = true; if :: isSingle -> single[at] = FREE :: else -> range[at] = ENDED fi }
  :: atomic { rejected < REJECTS -> rejected++ };
     giveBack(at, REJECT_WAKES);
     if :: atomic { MAY_LEAVE -> left++ }; goto dead :: true fi
  :: atomic { MAY_LEAVE -> left++ };
     giveBack(at, RELEASE_WAKES);
     goto dead
  fi;
  atomic { at = 0; got = 0; isSingle = false }
}

inline announce() {
  s = sequence;
  MEMBER_MAY_DIE;
  raise();
  MEMBER_MAY_DIE
}

proctype Member(byte me) {
  byte s = 0, f = 0, other = 0, at = 0, got = 0, seen = 0, diedBefore = 0;
  bool wasDue = false, isSingle = false, hasChanged = false, isThere = false, isLate = false;
#ifdef IN_HAND
  if :: me == 0 -> got = 1; use() :: else -> skip fi;
#endif
  do
  :: seen = next;
#ifndef LOOK_FIRST
     if :: IS_ASYNC -> skip :: else -> announce() fi;
#endif
     take();
     if :: atomic { got == 0 && !IS_ASYNC && MAY_LEAVE -> left++ }; goto dead :: true fi;
#ifndef OWNERS_IGNORED
     if
     :: got == 0 -> lookAtOwners(); if :: hasChanged -> take() :: else -> skip fi
     :: else -> skip
     fi;
#endif
#ifdef LOOK_FIRST
     announce();
#endif
again:
     if
     :: IS_ASYNC && got == 0 ->
        announce();
        isThere = due;
        isThere = isThere || next < published;
#ifndef NEXT_IGNORED
        if :: seen != next -> othersHold[me] = true :: else -> skip fi
#endif
     :: else -> skip
     fi;
     if
     :: got > 0 -> use(); isLate = false
     :: got == 0 && isThere -> isThere = false
#ifndef DUE_IGNORED
     :: got == 0 && !isThere && !IS_ASYNC && due -> skip    /* it sleeps a millisecond, and looks again */
#endif
     :: else ->
        overlooked = isLate;
        assert(!overlooked);
        atomic { if :: sequence == s -> asleep[me] = true; slept = true :: else -> skip fi };
        MEMBER_MAY_DIE;
endAsleep:
        if
        :: atomic { !asleep[me] }; if :: IS_ASYNC -> goto again :: else -> skip fi
        :: atomic { asleep[me] && othersHold[me] && died > diedBefore -> asleep[me] = false }
#ifdef BOUNDED_SLEEP
        :: atomic {
             timeout && asleep[me] -> asleep[me] = false;
             if :: acked[0] -> goto dead :: else -> isLate = true fi
           }
#endif
        fi
     fi;
     atomic { s = 0; hasChanged = false; diedBefore = 0 }
  od;
dead:
  atomic {
    gone[me] = true; asleep[me] = false; othersHold[me] = false;
    s = 0; f = 0; other = 0; at = 0; got = 0; seen = 0; diedBefore = 0;
    wasDue = false; isSingle = false; hasChanged = false; isThere = false; isLate = false
  }
}

proctype Publisher() {
  byte f = 0, other = 0, me = WAITERS;
  do
  :: published < MSGS -> published++; wake()
  :: else -> break
  od;
dead: skip
}

/* Looks when nothing else can move. Who has a message acknowledges it or gives it back: nobody keeps one. */
proctype GroupJudge() {
  byte each = 0, at = 0;
endJudge:
  timeout;
  atomic {
    do
    :: each < WAITERS ->
       at = 0;
       do
       :: at < MSGS -> overlooked = !gone[each] && !acked[at]; assert(!overlooked); at++
       :: else -> break
       od;
       each++
    :: else -> break
    od;
#ifdef WITNESS
    /* Not a defect: one gave a message back, one died, and another one slept and had it in the end. */
    witness = slept && rejected == REJECTS && died == DEATHS && acked[0];
    assert(!witness)
#endif
  }
}

init {
  atomic {
    byte id = 0;
    do :: id < WAITERS -> run Member(id); id++ :: else -> break od;
#ifdef IN_HAND
    published = 1; next = 1; range[0] = OUT;
#else
    run Publisher();
#endif
#ifndef BOUNDED_SLEEP
    run GroupJudge()
#endif
  }
}
#else

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
#endif
