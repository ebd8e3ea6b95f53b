/*
One thread that waits for the asynchronous calls of many queues: no wait is overlooked, and nothing unmapped is touched.

Models WaitThread, WaitThreads, SignalWaits, and what AsyncWaiter and ReaderWait do under the lock of the waits; all in
src/MappedFileQueues/Log/Waiting, Log/Reading and Inspection. docs/DESIGN.md section 5. What wakers and waiters of other
processes do is in wait.pml; here a waker never dies, and there is no time-out.

One queue with two waits, for its first and for its second message; or two queues (-DTWO), each with a wait and a message. A
wait may be added when its message is there already: the caller's own look came before it.

Adding a wait, under the lock of the queue's waits:
  1. if the queue is in no thread's list: put it into the list of the thread, or start a thread;
  2. "not prepared": the next round looks at the queue;
  3. interrupt: raise the thread's own word, then, if the thread says that it sleeps, wake it.

A round of the thread:
  1. read its own word;
  2. copy the list; when it is empty: rest, and after a while end, if the list is still empty (one lock for both);
  3. each queue, under its lock: if it is not prepared, or its sequence has moved: read the sequence, raise the flag;
  4. fence producers, once for all queues;
  5. each of these queues, under its lock: look at its waits, end those that are over; prepared; without waits it leaves
     the list;
  6. say "sleeps", then sleep while its own word and all sequences are what was read.

Dispose of a queue, under its lock: end its waits, take it from the list, interrupt. Then unmap.

What must be true:
  overlooked  when nothing moves any more, no wait is pending whose message is there.
  crashed     the thread never touches the words of a queue that were unmapped.

variant design                       holds
variant design-two                   holds             -DTWO
variant design-dispose               holds             -DTWO -DDISPOSE
variant design-exclusive             holds             -DTWO -DEXCLUSIVE
variant design-exclusive-dispose     full-holds        -DTWO -DEXCLUSIVE -DDISPOSE
variant witness                      fails:witness     -DWITNESS
variant interrupt-without-word       fails:overlooked  -DINTERRUPT_ONLY_WAKES
variant sleeper-looked-for-first     fails:overlooked  -DSLEEPER_LOOKED_FOR_FIRST
variant sleep-not-said               fails:overlooked  -DSLEEP_NOT_SAID
variant word-read-after-list         fails:overlooked  -DTWO -DWORD_READ_LATE
variant new-wait-not-looked-at       fails:overlooked  -DPREPARED_IS_KEPT
variant look-before-raise            fails:overlooked  -DLOOK_BEFORE_RAISE
variant moved-sequence-not-looked-at fails:overlooked  -DMOVE_IS_IGNORED
variant fence-after-first-flag       fails:overlooked  -DTWO -DEXCLUSIVE -DFENCE_TOO_EARLY
variant end-checked-without-lock     fails:overlooked  -DEND_UNLOCKED
variant unmapped-first               fails:crashed     -DTWO -DDISPOSE -DUNMAP_FIRST
variant taken-away-without-lock      fails:crashed     -DTWO -DDISPOSE -DTAKEN_UNLOCKED
*/

#define QUEUES 2
#define WAITS  2
#ifdef TWO
#define QUEUE(w)    (w)
#define NUMBER(w)   1                    /* the message that it waits for */
#define MESSAGES(q) 1
#define PRODUCERS   2
#define NONE_LEFT(q) (!pending[q])
#else
#define QUEUE(w)    0
#define NUMBER(w)   (w + 1)
#define MESSAGES(q) 2
#define PRODUCERS   1
#define NONE_LEFT(q) (!pending[0] && !pending[1])
#endif

byte word = 0;                           /* the thread's own */
bool sleeps = false, asleep = false, running = false;
byte sequence[QUEUES], flag[QUEUES], published[QUEUES], buffered[QUEUES];
byte saw[QUEUES];
bool locked[QUEUES], prepared[QUEUES], looking[QUEUES], listed[QUEUES], inRound[QUEUES], waitsFor[QUEUES];
bool unmapped[QUEUES], disposed[QUEUES];
bool pending[WAITS];
byte added = 0, finished = 0;
bool overlooked, crashed, witness, slept;

inline lockWaits(q) { atomic { !locked[q] -> locked[q] = true } }
inline unlockWaits(q) { locked[q] = false }

/* The kernel finds another value, or nothing mapped there. */
#define MOVED(q) (waitsFor[q] && (unmapped[q] || sequence[q] != saw[q]))

inline drain(q) { published[q] = published[q] + buffered[q]; buffered[q] = 0 }

inline touch(q) { crashed = unmapped[q]; assert(!crashed) }

inline interrupt() {
#ifdef SLEEPER_LOOKED_FOR_FIRST
  if
  :: sleeps -> word++; asleep = false
  :: !sleeps -> word++
  fi
#else
#ifndef INTERRUPT_ONLY_WAKES
  word++;
#endif
  if :: sleeps -> asleep = false :: !sleeps -> skip fi
#endif
}

/* Step 3 for one queue. */
inline raiseFlag(q) {
  if
  :: inRound[q] ->
     lockWaits(q);
     if
     :: listed[q] ->
        touch(q);
#ifdef MOVE_IS_IGNORED
        looking[q] = !prepared[q];
        saw[q] = sequence[q];
#else
        looking[q] = !prepared[q] || sequence[q] != saw[q];
#endif
        if
        :: looking[q] ->
           saw[q] = sequence[q];
           touch(q);
           d_step { if :: flag[q] < saw[q] + 1 -> flag[q] = saw[q] + 1 :: else -> skip fi }
        :: else -> skip
        fi
     :: else -> looking[q] = false
     fi;
     unlockWaits(q)
  :: else -> skip
  fi
}

/* Step 5 for one queue. */
inline look(q) {
  if
  :: inRound[q] ->
     lockWaits(q);
     if
     :: looking[q] && listed[q] ->
        touch(q);
        atomic {
          w = 0;
          do
          :: w < WAITS ->
             if
             :: QUEUE(w) == q && pending[w] && published[q] >= NUMBER(w) -> pending[w] = false
             :: else -> skip
             fi;
             w++
          :: else -> break
          od;
          w = 0;
          prepared[q] = true;
          if :: NONE_LEFT(q) -> listed[q] = false :: else -> skip fi
        }
     :: else -> skip
     fi;
     waitsFor[q] = listed[q];
     looking[q] = false;
     unlockWaits(q)
  :: else -> waitsFor[q] = false
  fi
}

inline fence() {
#ifdef EXCLUSIVE
  d_step { drain(0); drain(1) }
#else
  skip
#endif
}

proctype Thread() {
  byte read = 0, w = 0;
  do
  ::
#ifndef WORD_READ_LATE
     read = word;
#endif
     d_step { inRound[0] = listed[0]; inRound[1] = listed[1] };
#ifdef WORD_READ_LATE
     read = word;
#endif
     if
     :: !inRound[0] && !inRound[1] ->
        if
#ifdef END_UNLOCKED
        :: !listed[0] && !listed[1] -> running = false; goto done
#else
        :: atomic { !listed[0] && !listed[1] -> running = false; goto done }
#endif
        :: skip
        fi
     :: else ->
#ifdef LOOK_BEFORE_RAISE
        looking[0] = true; looking[1] = true;
        look(0); look(1);
        raiseFlag(0); raiseFlag(1);
#else
        raiseFlag(0);
#ifdef FENCE_TOO_EARLY
        fence();
#endif
        raiseFlag(1);
#ifndef FENCE_TOO_EARLY
        fence();
#endif
        look(0);
        look(1);
#endif
        if
        :: !waitsFor[0] && !waitsFor[1] -> goto next
        :: else -> skip
        fi
     fi;
#ifndef SLEEP_NOT_SAID
     sleeps = true;
#endif
     d_step {
       if
       :: word == read && !MOVED(0) && !MOVED(1) ->
          asleep = true;
          slept = slept || waitsFor[0]
       :: else -> skip
       fi
     };
endAsleep:
     !asleep;
     sleeps = false;
next:
     skip;
     d_step { read = 0; inRound[0] = false; inRound[1] = false; waitsFor[0] = false; waitsFor[1] = false }
  od;
done:
  skip
}

proctype Adder(byte me) {
  lockWaits(QUEUE(me));
  if
  :: disposed[QUEUE(me)] -> skip
  :: else ->
     atomic {
       if
       :: !listed[QUEUE(me)] ->
          listed[QUEUE(me)] = true;
          if :: !running -> running = true; run Thread() :: else -> skip fi
       :: else -> skip
       fi
     };
#ifndef PREPARED_IS_KEPT
     prepared[QUEUE(me)] = false;
#endif
     pending[me] = true;
     interrupt()
  fi;
  unlockWaits(QUEUE(me));
  added++
}

/* A producer in another process: its mapping is its own. */
proctype Producer(byte q) {
  byte f = 0, sent = 0;
  do
  :: sent < MESSAGES(q) ->
     sent++;
#ifdef EXCLUSIVE
     buffered[q]++;
#else
     published[q]++;
#endif
     f = flag[q];
     if
     :: f == 0 -> skip
     :: f != 0 ->
        d_step { drain(q); sequence[q]++ };
        if :: waitsFor[q] && asleep -> asleep = false :: else -> skip fi;
        d_step { if :: flag[q] == f -> flag[q] = 0 :: else -> skip fi };
        f = 0
     fi
  :: else -> break
  od;
  atomic { finished++; sent = 0 }
}

#ifdef EXCLUSIVE
proctype StoreBuffer(byte q) {
endBuffer:
  do
  :: d_step { buffered[q] > 0 -> drain(q) }
  od
}
#endif

#ifdef DISPOSE
proctype Disposer() {
#ifdef UNMAP_FIRST
  unmapped[1] = true;
#endif
#ifndef TAKEN_UNLOCKED
  lockWaits(1);
#endif
  disposed[1] = true;
  pending[1] = false;
  listed[1] = false;
  interrupt();
#ifndef TAKEN_UNLOCKED
  unlockWaits(1);
#endif
  unmapped[1] = true
}
#endif

/* Looks when nothing else can move. */
proctype Judge() {
endJudge:
  timeout;
  atomic {
    assert(finished == PRODUCERS && added == WAITS);
    overlooked = (pending[0] && published[0] >= NUMBER(0)) || (pending[1] && published[QUEUE(1)] >= NUMBER(1));
    assert(!overlooked);
#ifdef WITNESS
    /* Not a defect: the thread slept on a queue's word, and its wait has ended. */
    witness = slept && word == WAITS;
    assert(!witness)
#endif
  }
}

init {
  atomic {
    run Adder(0); run Adder(1);
    run Producer(0);
#ifdef TWO
    run Producer(1);
#endif
#ifdef EXCLUSIVE
    run StoreBuffer(0);
    run StoreBuffer(1);
#endif
#ifdef DISPOSE
    run Disposer();
#endif
    run Judge()
  }
}
