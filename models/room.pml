/*
Back-pressure: no producer that waits for consumers is overlooked.

Models ConsumerLimit, CapacityWait, PendingAppends, LogConsumer.Commit, GroupScan.FindFloor and GroupLeases.Ended in
src/MappedFileQueues/Log. docs/DESIGN.md sections 8 and 10.
The signal is that of wait.pml with the sides exchanged: a producer waits, and a commit wakes. There is no time-out here.
A commit is a store that may linger in the store buffer; the cursor that producers see moves when the buffer is drained.
Consumers pay for a fence only while the word "producers may wait" is set.

Consumer:  1 store the cursor; 2 load the word; 0: done; 3 fence; 4 f = flag; 0: done; 5 sequence + 1; 6 wake all;
           7 clear the flag by compare-and-swap from f. Killed anywhere: its cursor stays where it is and counts.
Deleter:   1 remove the cursor of a dead consumer; then as 3 to 7.
Producer:  when it attaches: A the word is 2: done; B raise it to 1 (a full fence); C fence every thread of the machine; D raise
           it to 2. With no room: 1 s = sequence; 2 raise the flag to s + 1 by compare-and-swap; 3 look at all cursors again;
           4 sleep while the sequence is s; then from the start. Killed anywhere: the flag stays raised.

With -DGROUP the slowest consumer is a group, and its floor the cursor. The floor is no word: a producer's look reads `next`
(P50), each range, then each single (P51), and takes the lowest message that is out. With the tags of the code:

Acknowledge: GroupRangeEnded, the range or the single to done (P51, a full fence); then as consumer's 2 and 4 to 7 (`Ended`).
Give back:   GroupSingleTaken, a single becomes filling; GroupSingleWhole, from here on it counts for the floor; GroupBitMoved,
             the message is the single's (P52); the single waits; the range ends, as above. When the range was taken over
             meanwhile the bit fails: the single becomes free, which may move the floor, so `Ended` here too.
Take over a dead or fenced member's range: GroupTakenOver (P51), GroupBitsTurned (P52), give back, the range ends. A single that
             nobody will complete becomes free, and `Ended`.
Killed with a message in hand, or in a take-over: the floor stays, and moves when another member has ended the message. Killed
between the end of a record and the wake: a second covers it, which is not in the model.

What must be true:
  overlooked  when nothing moves any more, no living producer sleeps that has room;
  low         when nothing moves any more and a member lives, the floor is the end.

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
variant design-group                    holds             -DGROUP -DMSGS=2 -DWAITERS=1
variant design-group-two-waiters        holds             -DGROUP
variant design-group-death              holds             -DGROUP -DDEATHS=1 -DWAITERS=1
variant design-group-rejects-death      holds             -DGROUP -DREJECTS=1 -DDEATHS=1 -DWAITERS=1
variant design-group-fence              holds             -DGROUP -DREJECTS=1 -DFENCES=1 -DIN_HAND -DWAITERS=1
variant design-group-fence-and-death    full-holds        -DGROUP -DREJECTS=1 -DFENCES=1 -DDEATHS=1 -DWAITERS=1
variant design-group-two-deaths         full-holds        -DGROUP -DMSGS=2 -DMEMBERS=3 -DDEATHS=2 -DWAITERS=1
variant witness                         fails:witness     -DWITNESS
variant witness-group                   fails:witness     -DWITNESS -DGROUP -DDEATHS=1 -DWAITERS=1
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
variant ended-range-is-silent           fails:overlooked  -DGROUP -DSILENT_RANGE
variant ended-single-is-silent          fails:overlooked  -DGROUP -DSILENT_SINGLE -DDEATHS=1 -DWAITERS=1
variant freed-single-is-silent          fails:overlooked  -DGROUP -DSILENT_FREEING -DREJECTS=1 -DFENCES=1 -DIN_HAND -DWAITERS=1
variant wake-before-record-ends         fails:overlooked  -DGROUP -DWAKE_BEFORE_END -DWAITERS=1
variant group-flag-looked-at-first      fails:overlooked  -DGROUP -DFLAG_FIRST -DWAITERS=1
variant floor-read-before-flag          fails:overlooked  -DGROUP -DLOOK_FIRST -DWAITERS=1
variant taken-over-range-is-silent      fails:overlooked  -DGROUP -DSILENT_TAKE_OVER -DREJECTS=1 -DDEATHS=1 -DWAITERS=1
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

#ifdef GROUP
#ifndef MSGS
#define MSGS 1
#endif
#ifndef MEMBERS
#define MEMBERS 2
#endif
#ifndef DEATHS
#define DEATHS 0
#endif
#ifndef REJECTS
#define REJECTS 0
#endif
#ifndef FENCES
#define FENCES 0
#endif
#undef COMMITS
#define COMMITS MSGS
#define SINGLES 2

#define FREE    0            /* done, for a range */
#define FILLING 1
#define WAITING 2
#define HELD    3

/* A range has one message, and its number. */
byte next;
byte range[MSGS], rangeOwner[MSGS], tag[MSGS];
bool hasMoved[MSGS];
byte single[SINGLES], singleOwner[SINGLES], message[SINGLES];
bool isWhole[SINGLES];
bool killed[MEMBERS], fenced[MEMBERS];
byte died, rejected;
bool low;

#define MEMBER_MAY_DIE \
  if :: atomic { died < DEATHS -> died++; killed[me] = true; goto dead } :: true fi
#define IS_GONE(owner) (killed[owner] || fenced[owner])
#ifdef SILENT_TAKE_OVER
#define TAKE_OVER_WAKES false
#else
#define TAKE_OVER_WAKES true
#endif
#ifdef SILENT_RANGE
#define RANGE_WAKES false
#else
#define RANGE_WAKES true
#endif

/* After the compare-and-swap, which is the fence. */
inline ended() {
#ifndef FLAG_FIRST
  f = 0;
#endif
  if
  :: word == 0 -> skip
  :: word != 0 ->
#ifndef FLAG_FIRST
     f = flag;
#endif
     wake()
  fi;
  f = 0
}

inline readFlagFirst() {
#ifdef FLAG_FIRST
  f = flag
#else
  skip
#endif
}

inline freeSingle() {
  atomic { single[c] = FREE; isWhole[c] = false };
#ifndef SILENT_FREEING
  ended()
#endif
}

/* Message m of its range, held under tag t. Not ok: the range was taken over. */
inline giveBack() {
  if
  :: atomic { single[0] == FREE -> c = 0; single[c] = FILLING; singleOwner[c] = me; message[c] = m }
  :: atomic { single[0] != FREE && single[1] == FREE -> c = 1; single[c] = FILLING; singleOwner[c] = me; message[c] = m }
  fi;
  MEMBER_MAY_DIE;
  isWhole[c] = true;
  MEMBER_MAY_DIE;
  atomic { ok = tag[m] == t && !hasMoved[m]; hasMoved[m] = hasMoved[m] || ok };
  if
  :: ok -> MEMBER_MAY_DIE; atomic { if :: single[c] == FILLING && singleOwner[c] == me -> single[c] = WAITING :: else -> skip fi }
  :: else -> freeSingle()
  fi
}

inline endRange(wakes) {
  readFlagFirst();
#ifdef WAKE_BEFORE_END
  ended();
#endif
  atomic { ok = range[m] == HELD && rangeOwner[m] == me && tag[m] == t; if :: ok -> range[m] = FREE :: else -> skip fi };
#ifndef WAKE_BEFORE_END
  if :: ok && wakes -> ended() :: else -> skip fi
#endif
}

proctype Member(byte me) {
  byte f = 0, each = 0, m = 0, t = 0, c = 0;
  bool ok = false;
#ifdef IN_HAND
  if :: me == 0 -> goto has :: else -> skip fi;
#endif
endIdle:
  if
  :: atomic { next < MSGS -> m = next; t = tag[m]; range[m] = HELD; rangeOwner[m] = me; next++ }; goto has
  :: atomic { single[0] == WAITING -> c = 0; single[c] = HELD; singleOwner[c] = me }; goto hasSingle
  :: atomic { single[1] == WAITING -> c = 1; single[c] = HELD; singleOwner[c] = me }; goto hasSingle
  :: atomic { range[0] == HELD && rangeOwner[0] != me && IS_GONE(rangeOwner[0]) -> m = 0; rangeOwner[m] = me }; goto takesOver
#if MSGS > 1
  :: atomic { range[1] == HELD && rangeOwner[1] != me && IS_GONE(rangeOwner[1]) -> m = 1; rangeOwner[m] = me }; goto takesOver
#endif
  :: atomic { single[0] == HELD && IS_GONE(singleOwner[0]) && singleOwner[0] != me -> single[0] = WAITING }; goto endIdle
  :: atomic { single[1] == HELD && IS_GONE(singleOwner[1]) && singleOwner[1] != me -> single[1] = WAITING }; goto endIdle
  :: atomic { single[0] == FILLING && killed[singleOwner[0]] && (!isWhole[0] || range[message[0]] == FREE) -> c = 0 }; goto frees
  :: atomic { single[1] == FILLING && killed[singleOwner[1]] && (!isWhole[1] || range[message[1]] == FREE) -> c = 1 }; goto frees
  fi;

has:
  MEMBER_MAY_DIE;
  if
  :: atomic { rejected < REJECTS -> rejected++ }; giveBack(); MEMBER_MAY_DIE
  :: true
  fi;
  endRange(RANGE_WAKES);
  goto again;

hasSingle:
  MEMBER_MAY_DIE;
  readFlagFirst();
#ifdef WAKE_BEFORE_END
  ended();
#endif
  atomic { ok = single[c] == HELD && singleOwner[c] == me; if :: ok -> single[c] = FREE; isWhole[c] = false :: else -> skip fi };
#if !defined(WAKE_BEFORE_END) && !defined(SILENT_SINGLE)
  if :: ok -> ended() :: else -> skip fi;
#endif
  goto again;

takesOver:
  MEMBER_MAY_DIE;
  atomic { tag[m]++; t = tag[m] };     /* from here on the owner before cannot move the message */
  MEMBER_MAY_DIE;
  c = 0;
  do
  :: c < SINGLES ->
     atomic {
       if
       :: single[c] == FILLING && isWhole[c] && message[c] == m && singleOwner[c] != me && hasMoved[m] -> single[c] = WAITING
       :: single[c] == FILLING && isWhole[c] && message[c] == m && !hasMoved[m] && killed[singleOwner[c]] ->
          single[c] = FREE; isWhole[c] = false
       :: else -> skip
       fi
     };
     c++
  :: else -> break
  od;
  if :: !hasMoved[m] -> giveBack() :: else -> skip fi;
  MEMBER_MAY_DIE;
  endRange(TAKE_OVER_WAKES);
  goto again;

frees:
  freeSingle();

again:
  atomic { f = 0; each = 0; m = 0; t = 0; c = 0; ok = false; goto endIdle };
dead:
  atomic { f = 0; each = 0; m = 0; t = 0; c = 0; ok = false }
}

#if FENCES > 0
proctype Operator() {
  if :: atomic { !killed[0] -> fenced[0] = true } :: true fi
}
#endif

/* The floor, in this order: messages move from ranges to singles. */
inline readFloor() {
  floor = next;
  at = 0;
  do
  :: at < MSGS -> if :: range[at] == HELD && at < floor -> floor = at :: else -> skip fi; at++
  :: else -> break
  od;
  at = 0;
  do
  :: at < SINGLES ->
     if
     :: (single[at] > FILLING || (single[at] == FILLING && isWhole[at])) && message[at] < floor -> floor = message[at]
     :: else -> skip
     fi;
     at++
  :: else -> break
  od;
  at = 0
}
#else

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

#endif

/* Sets `room`; each cursor is a load of its own. */
inline look() {
#ifdef GROUP
  readFloor();
  atomic { room = floor >= wanted[me]; floor = 0 }
#else
  room = true;
  at = 0;
  do
  :: at < CONSUMERS ->
     room = room && (absent[at] || cursor[at] >= wanted[me]);
     at++
  :: else -> break
  od;
  at = 0
#endif
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
#ifdef GROUP
  byte floor = 0;
#endif
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
#ifdef GROUP
  byte floor = 0;
#endif
  bool room = false;
endJudge:
  timeout;
  atomic {
#ifdef GROUP
    readFloor();
    low = floor < MSGS && died < MEMBERS;
    assert(!low);
#endif
    do
    :: each < WAITERS ->
#ifdef GROUP
       room = floor >= wanted[each];
#else
       room = true;
       at = 0;
       do
       :: at < CONSUMERS -> room = room && (absent[at] || cursor[at] >= wanted[each]); at++
       :: else -> break
       od;
#endif
       overlooked = !gone[each] && wanted[each] <= COMMITS && room;
       assert(!overlooked);
       each++
    :: else -> break
    od;
#ifdef WITNESS
    /* Not a defect: one sleeps, and passes afterwards. */
#ifdef GROUP
    witness = slept && passed && died == DEATHS;
#else
    witness = slept && passed;
#endif
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
#ifdef GROUP
#ifdef IN_HAND
    next = 1; range[0] = HELD;
#endif
    do :: id < MEMBERS -> run Member(id); id++ :: else -> break od;
#if FENCES > 0
    run Operator();
#endif
#else
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
#endif
    run Judge()
  }
}
