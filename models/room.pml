/*
Back-pressure: no producer that waits for consumers is overlooked.

Models ConsumerLimit, CapacityWait, PendingAppends and LogConsumer.Commit in src/MappedFileQueues/Log. docs/DESIGN.md section 8.
The signal is that of wait.pml with the sides exchanged: a producer waits, and a commit wakes. There is no time-out here.
A commit is a store that may linger in the store buffer; the cursor that producers see moves when the buffer is drained.
Consumers pay for a fence only while the word "producers may wait" is set.

Consumer:  1 store the cursor; 2 load the word; 0: done; 3 fence; 4 f = flag; 0: done; 5 sequence + 1; 6 wake all;
           7 clear the flag by compare-and-swap from f. Killed anywhere: its cursor stays where it is and counts.
Deleter:   1 remove the cursor of a dead consumer; then as 3 to 7.
Producer:  when it attaches: A the word is 2: done; B raise it to 1 (a full fence); C fence every thread of the machine; D raise
           it to 2. With no room: 1 s = sequence; 2 raise the flag to s + 1 by compare-and-swap; 3 look at all cursors again;
           4 sleep while the sequence is s; then from the start. Killed anywhere: the flag stays raised.

What must be true:
  overlooked  when nothing moves any more, no living producer sleeps that has room.

variant design                          holds
variant design-two-commits              holds             -DCOMMITS=2 -DWAITERS=1
variant design-two-consumers            holds             -DCONSUMERS=2 -DWAITERS=1
variant design-dying-waiter             holds             -DDYING_WAITERS=1
variant design-dying-consumer           holds             -DDYING_CONSUMERS=1 -DCONSUMERS=2 -DWAITERS=1
variant design-consumer-appears         holds             -DAPPEARS -DCONSUMERS=2 -DWAITERS=1
variant design-consumer-moves-back      holds             -DMOVES_BACK -DCOMMITS=2 -DWAITERS=1
variant design-dying-announcer          holds             -DDYING_ANNOUNCERS=1
variant design-everything               full-holds        -DCONSUMERS=2 -DDYING_CONSUMERS=1 -DDYING_WAITERS=1
variant design-two-of-each              holds             -DCONSUMERS=2 -DCOMMITS=2 -DWAITERS=1
variant witness                         fails:witness     -DWITNESS
variant commit-without-fence            fails:overlooked  -DNO_COMMIT_FENCE
variant announced-without-fence         fails:overlooked  -DNO_BARRIER
variant fence-before-word               fails:overlooked  -DBARRIER_FIRST
variant word-believed-before-fence      fails:overlooked  -DWORD_BELIEVED
variant no-second-look                  fails:overlooked  -DNO_SECOND_LOOK
variant look-before-flag                fails:overlooked  -DLOOK_FIRST
variant sequence-read-after-look        fails:overlooked  -DSEQUENCE_READ_LATE
variant flag-looked-at-before-cursor    fails:overlooked  -DFLAG_FIRST
variant flag-cleared-by-store           fails:overlooked  -DCLEAR_BY_STORE -DCOMMITS=2
variant wake-before-bump                fails:overlooked  -DWAKE_BEFORE_BUMP
variant deletion-is-silent              fails:overlooked  -DSILENT_DELETION -DDYING_CONSUMERS=1 -DCONSUMERS=2 -DWAITERS=1
*/

#ifndef CONSUMERS
#define CONSUMERS 1
#endif
#ifndef WAITERS
#define WAITERS 2
#endif
#ifndef COMMITS
#define COMMITS 1
#endif
#ifndef DYING_CONSUMERS
#define DYING_CONSUMERS 0
#endif
#ifndef DYING_WAITERS
#define DYING_WAITERS 0
#endif
#ifndef DYING_ANNOUNCERS
#define DYING_ANNOUNCERS 0
#endif

byte cursor[CONSUMERS];      /* as others see it */
byte buffered[CONSUMERS];    /* what is in the consumer's store buffer, plus one */
bool absent[CONSUMERS];      /* not there yet, or deleted */
bool over[CONSUMERS];
bool dead0;
byte word, flag, sequence;
bool asleep[WAITERS], gone[WAITERS];
byte wanted[WAITERS];        /* the cursor that makes room for this producer's next message */
byte consumersDied, waitersDied, announcersDied;
bool overlooked, witness, slept, passed;

inline drain(c) {
  d_step { if :: buffered[c] > 0 -> cursor[c] = buffered[c] - 1; buffered[c] = 0 :: else -> skip fi }
}

/* The fence of everybody: every store before it is visible after it. */
inline fenceEverybody() {
  d_step {
    each = 0;
    do
    :: each < CONSUMERS ->
       if :: buffered[each] > 0 -> cursor[each] = buffered[each] - 1; buffered[each] = 0 :: else -> skip fi;
       each++
    :: else -> break
    od;
    each = 0
  }
}

inline wakeAll() {
  d_step {
    each = 0;
    do :: each < WAITERS -> asleep[each] = false; each++ :: else -> break od;
    each = 0
  }
}

#define CONSUMER_MAY_DIE \
  if :: atomic { me == 0 && consumersDied < DYING_CONSUMERS -> consumersDied++; goto dead } :: true fi
#define WAITER_MAY_DIE \
  if :: atomic { me == 0 && waitersDied < DYING_WAITERS -> waitersDied++; gone[me] = true; goto dead } :: true fi

inline wake() {
  if
  :: f == 0 -> skip
  :: f != 0 ->
#ifdef WAKE_BEFORE_BUMP
     wakeAll();
     sequence++;
#else
     sequence++;
     wakeAll();
#endif
#ifdef CLEAR_BY_STORE
     flag = 0;
#else
     d_step { if :: flag == f -> flag = 0 :: else -> skip fi };
#endif
     f = 0
  fi
}

inline commit(to) {
#ifdef FLAG_FIRST
  f = flag;
#endif
  buffered[me] = to + 1;
  CONSUMER_MAY_DIE;
  if
  :: word == 0 -> f = 0
  :: word != 0 ->
#ifndef NO_COMMIT_FENCE
     drain(me);
#endif
     CONSUMER_MAY_DIE;
#ifndef FLAG_FIRST
     f = flag;
#endif
     CONSUMER_MAY_DIE;
     wake()
  fi
}

proctype Consumer(byte me) {
  byte f = 0, each = 0, next = 1;
#ifdef APPEARS
  /* One at an old offset, while producers wait or do not. */
  if :: me > 0 -> absent[me] = false :: else -> skip fi;
#endif
  do
  :: next <= COMMITS -> commit(next); next++
  :: next > COMMITS -> break
  od;
#ifdef MOVES_BACK
  commit(0);
  commit(COMMITS);
#endif
dead:
  atomic { drain(me); dead0 = dead0 || (me == 0 && consumersDied > 0); over[me] = true; f = 0; each = 0; next = 0 }
}

proctype StoreBuffer(byte me) {
  do
  :: d_step { buffered[me] > 0 -> cursor[me] = buffered[me] - 1; buffered[me] = 0 }
  :: over[me] -> break
  od
}

#if DYING_CONSUMERS > 0
proctype Deleter() {
  byte f = 0, each = 0;
  if
  :: dead0 ->
     absent[0] = true;
#ifndef SILENT_DELETION
     f = flag;
     wake()
#endif
  :: over[0] && !dead0
  fi
}
#endif

/* Sets `room`; each cursor is a load of its own. */
inline look() {
  room = true;
  at = 0;
  do
  :: at < CONSUMERS ->
     room = room && (absent[at] || cursor[at] >= wanted[me]);
     at++
  :: else -> break
  od;
  at = 0
}

inline announce() {
  if
  :: word == 2 -> skip
#ifdef WORD_BELIEVED
  :: word == 1 -> skip
  :: word == 0 ->
#else
  :: word < 2 ->
#endif
#ifdef BARRIER_FIRST
     fenceEverybody();
#endif
     d_step { if :: word == 0 -> word = 1 :: else -> skip fi };
     if
     :: atomic { me == 0 && announcersDied < DYING_ANNOUNCERS -> announcersDied++; gone[me] = true; goto dead }
     :: true
     fi;
#if !defined(NO_BARRIER) && !defined(BARRIER_FIRST)
     fenceEverybody();
#endif
     word = 2
  fi
}

proctype Producer(byte me) {
  byte s = 0, each = 0, at = 0;
  bool room = false;
  announce();
  do
  :: wanted[me] > COMMITS -> break
  :: else ->
     look();
     if
     :: room -> wanted[me]++
     :: else ->
#ifdef LOOK_FIRST
        look();
#endif
        s = sequence;
        WAITER_MAY_DIE;
        d_step { if :: flag < s + 1 -> flag = s + 1 :: else -> skip fi };
        WAITER_MAY_DIE;
#if defined(NO_SECOND_LOOK)
        room = false;
#elif !defined(LOOK_FIRST)
        look();
#endif
#ifdef SEQUENCE_READ_LATE
        s = sequence;
#endif
        if
        :: room -> s = 0
        :: !room ->
           atomic { if :: sequence == s -> asleep[me] = true; slept = true :: else -> skip fi };
           WAITER_MAY_DIE;
endAsleep: atomic { !asleep[me] -> s = 0 }
        fi
     fi
  od;
dead:
  atomic { asleep[me] = false; passed = passed || wanted[me] > COMMITS; s = 0; each = 0; at = 0; room = false }
}

/* Looks when nothing else can move. */
proctype Judge() {
  byte each = 0, at = 0;
  bool room = false;
endJudge:
  timeout;
  atomic {
    do
    :: each < WAITERS ->
       room = true;
       at = 0;
       do
       :: at < CONSUMERS -> room = room && (absent[at] || cursor[at] >= wanted[each]); at++
       :: else -> break
       od;
       overlooked = !gone[each] && wanted[each] <= COMMITS && room;
       assert(!overlooked);
       each++
    :: else -> break
    od;
#ifdef WITNESS
    /* Not a defect: one sleeps, and passes afterwards. */
    witness = slept && passed;
    assert(!witness)
#endif
  }
}

init {
  atomic {
    byte id = 0;
    do
    :: id < WAITERS -> wanted[id] = 1; run Producer(id); id++
    :: else -> break
    od;
    id = 0;
    do
    :: id < CONSUMERS ->
#ifdef APPEARS
       absent[id] = id > 0;
#endif
       run Consumer(id);
       run StoreBuffer(id);
       id++
    :: else -> break
    od;
#if DYING_CONSUMERS > 0
    run Deleter();
#endif
    run Judge()
  }
}
