/*
Exclusive append: one producer at a time, without claims, and what the next producer of any mode must find.

Models ExclusiveAppender (append, batch, abandon, orderly end), ProducerAdmission (the producers' lock, "exclusive at work"
and its cleaning), SharedAppender as the successor, and LogReader; all in src/MappedFileQueues/Log. docs/DESIGN.md section
1. Words, headers and hostile payload as in shared_append.pml. A consumer stays attached all the time, so that nobody is ever
alone and no recovery runs between two producers.

Exclusive producer:
  1. take `open`, then the producers' lock alone (held: QueueInUseException);
  2. if "exclusive at work" is set, its setter died: zero all from the tail to the allocated bound, one word after the other;
     set the word, let `open` go;
  3. append: raise the allocated bound if the frame and the header behind it need it; store the payload (of a batch, also the
     inner headers) into free space; zero the word where the next header will be; look that the own place still holds 0;
     publish the first header by a plain release store;
  4. an abandoned append just leaves its bytes where they are and remembers how far they reach;
  5. orderly end, with no call in flight and no claim open: zero from the tail to the highest word ever written, clear
     "exclusive at work", let the lock go. While another thread's claim is still open, the lock is kept, for the life of the
     process if need be: there is no claimed header that could become padding, so late stores would hit a successor's frames.
  Killed in 2: the word is still set, the next one cleans again. Killed in 3: bytes beyond the tail that look like headers,
  and the word set.
  Killed in 5: the word is still set until the zeroing is over.

Shared producer:
  1. take `open`, then the producers' lock shared (an exclusive holder: QueueInUseException). If the word is set, its setter
     died, and no other shared holder has got past this step: clean as above, clear the word. Let `open` go;
  2. append by claim, copy and compare-and-swap. Killed in between: a hole, padded by any reader.

What must be true:
  forged       no payload is taken for a header, no inner header of an unfinished batch for a message;
  unsaid       no message is delivered whose Produce did not succeed;
  torn, lost   as in shared_append.pml;
  overwritten  nobody stores over a published header;
  stuck        nobody waits for ever (an invalid end state).

variant design                              holds
variant design-two-appends                  holds                   -DPRODUCERS=2 -DAPPENDS=2 -DCELLS=5
variant design-fixed-length                 holds                   -DFIXED_LENGTH
variant design-long-log                     full-holds              -DCELLS=5
variant design-two-appends-long-log         full-holds              -DPRODUCERS=2 -DAPPENDS=3 -DCELLS=6
variant witness                             fails:witness           -DWITNESS
variant next-header-not-zeroed              fails:forged            -DPRODUCERS=2 -DAPPENDS=2 -DCELLS=5 -DNO_ZEROED_HEADER
variant shared-successor-does-not-clean     fails:forged            -DSHARED_DOES_NOT_CLEAN
variant exclusive-successor-does-not-clean  fails:forged            -DEXCLUSIVE_DOES_NOT_CLEAN
variant word-cleared-before-cleaning        fails:forged            -DCLEARED_BEFORE_CLEANING
variant cleaning-outside-open               fails:lost|overwritten  -DCLEANING_OUTSIDE_OPEN
variant word-set-after-first-store          fails:forged            -DWORD_SET_LATE
variant bound-raised-after-store            fails:forged            -DBOUND_RAISED_LATE
variant dispose-without-zeroing             fails:forged            -DDISPOSE_WITHOUT_ZEROING
variant dispose-clears-word-first           fails:forged            -DDISPOSE_CLEARS_FIRST
variant dispose-without-drain               fails:torn|overwritten  -DDISPOSE_WITHOUT_DRAIN
variant lock-let-go-under-an-open-claim     fails:torn|overwritten  -DLOCK_LET_GO_UNDER_CLAIM
variant batch-first-header-first            fails:unsaid|lost       -DBATCH_FIRST_HEADER_FIRST
*/

#ifndef CELLS
#define CELLS 4
#endif
#ifndef PRODUCERS
#define PRODUCERS 3
#endif
#ifndef DEATHS
#define DEATHS 2
#endif
#ifndef APPENDS
#define APPENDS 1
#endif
#define NOBODY 0
/* What a new store has allocated; the rest of the segment is allocated by the producer that needs it. */
#define FIRST_BOUND 2

/* A header: bits 0-2 state, 3-4 length in words, 5-10 the claimant or the message's number. */
#define FREE      0
#define CLAIMED   1
#define PUBLISHED 2
#define PADDING   3
#define GOES_ON   4
#define HEADER(state, length, rest)  ((state) | ((length) << 3) | ((rest) << 5))
#define STATE(header)      ((header) & 7)
#define LENGTH(header)     (((header) >> 3) & 3)
#define REST(header)       ((header) >> 5)
#define FORGED             32
#define FORGERY            HEADER(PUBLISHED, 1, FORGED)

short log[CELLS];
byte allocated = FIRST_BOUND;
bool atWork = false;         /* "exclusive producer at work" */
byte openHolder = NOBODY;
byte producersAlone = NOBODY, producersShared = 0;
byte living = PRODUCERS;
byte started = 0;
byte deaths = 0;
bool gone[PRODUCERS + 1];    /* the producer's slot lock is free */
short published = 0;

bool forged, unsaid, torn, lost, overwritten, robbed, witness;
bool sawCleaning, sawShared;

#define MAY_DIE  if :: atomic { deaths < DEATHS -> deaths++; goto killed } :: true fi

/* The walk to the tail. Whoever holds the producers' lock alone pads claims on the way: their owners are gone. */
inline walkToTail() {
  do
  :: atomic { at >= CELLS -> break }
  :: atomic { at < CELLS && STATE(log[at]) == FREE -> break }
  :: atomic { at < CELLS && STATE(log[at]) == CLAIMED && producersAlone == _pid -> log[at] = HEADER(PADDING, LENGTH(log[at]), 0) }
  :: atomic { at < CELLS && STATE(log[at]) != FREE && !(STATE(log[at]) == CLAIMED && producersAlone == _pid) ->
       at = at + LENGTH(log[at]) }
  od
}

inline clean() {
#ifdef CLEARED_BEFORE_CLEANING
  atWork = false;
#endif
  walkToTail();
  highest = at;
  do
  :: atomic { highest >= allocated -> break }
  :: atomic { highest < allocated && log[highest] == 0 -> highest++ }
  :: atomic { highest < allocated && log[highest] != 0 ->
       overwritten = STATE(log[highest]) != FREE && REST(log[highest]) < FORGED && (published & (1 << REST(log[highest]))) != 0;
       assert(!overwritten);
       log[highest] = 0; highest++; sawCleaning = true };
     MAY_DIE
  od;
  highest = 0
}

/* Numbers: producer p's first message is 4p, its second 4p + 1; the inner frames of a batch 4p + 2 and 4p + 3. */
#define NUMBER  (4 * (id - 1) + nth)
#define INNER   (4 * (id - 1) + nth + 2)

/* Payload of a frame of two words: reads as a header, and names the message in the remaining bits. */
#define PAYLOAD(number) (FORGERY | ((number) << 5))

inline choose() {
  atomic {
    batch = false;
#ifdef FIXED_LENGTH
    if :: length = 1 :: length = 2; batch = true fi
#else
    if :: length = 3 :: length = 2; batch = true :: length = 2 :: length = 1 fi
#endif
  }
}

inline copy() {
  if
  :: length == 1 -> skip
  :: length >= 2 && !batch -> log[at + 1] = PAYLOAD(NUMBER);
     if :: length == 3 -> log[at + 2] = FORGERY :: else -> skip fi
  :: batch -> log[at + 1] = HEADER(PUBLISHED, 1, INNER)
  fi
}

inline announce() {
  overwritten = STATE(log[at]) == PUBLISHED || STATE(log[at]) == GOES_ON;
  assert(!overwritten);
  log[at] = (batch -> HEADER(GOES_ON, 1, NUMBER) : HEADER(PUBLISHED, length, NUMBER))
}

inline confirm() {
  published = published | (1 << NUMBER) | (batch -> 1 << INNER : 0)
}

inline exclusiveAppend() {
  if
  :: atomic { (at + length < CELLS -> at + length + 1 : CELLS) > allocated -> bound = CELLS };
#ifndef BOUND_RAISED_LATE
     allocated = bound
#endif
  :: else -> bound = allocated
  fi;
#ifdef BATCH_FIRST_HEADER_FIRST
  if :: batch -> d_step { announce() } :: else -> skip fi;
#endif
  copy();
  highest = (at + length > highest -> at + length : highest);
  MAY_DIE;
#ifdef WORD_SET_LATE
  atWork = true;
#endif
#ifdef BOUND_RAISED_LATE
  allocated = bound;
#endif
#ifdef LOCK_LET_GO_UNDER_CLAIM
  if
  :: atomic { producersAlone == _pid -> producersAlone = NOBODY }
  :: true
  fi;
#endif
#ifdef DISPOSE_WITHOUT_DRAIN
  if
  :: disposedEarly -> skip
  :: !disposedEarly -> disposedEarly = true; disposeExclusive()
  :: true
  fi;
#endif
  if
  :: true -> skip                                              /* abandoned: a fill callback that threw */
  :: true ->
#ifndef NO_ZEROED_HEADER
     if :: at + length < CELLS -> log[at + length] = 0 :: else -> skip fi;
     MAY_DIE;
#endif
     if
#ifdef BATCH_FIRST_HEADER_FIRST
     :: batch -> d_step { confirm() }; at = at + length
     :: !batch && log[at] == 0 -> d_step { announce(); confirm() }; at = at + length
     :: !batch && log[at] != 0 -> goto killed
#else
     :: log[at] == 0 -> d_step { announce(); confirm() }; at = at + length
     :: log[at] != 0 -> goto killed                            /* somebody else wrote here: fail fast, never clean up */
#endif
     fi
  fi
}

inline disposeExclusive() {
#ifdef DISPOSE_CLEARS_FIRST
  atWork = false;
  MAY_DIE;
#endif
#ifndef DISPOSE_WITHOUT_ZEROING
  scrub = at;
  do
  :: scrub >= highest -> break
  :: scrub < highest -> log[scrub] = 0; scrub++; MAY_DIE
  od;
  scrub = 0;
#endif
  atWork = false;
  MAY_DIE;
  atomic { if :: producersAlone == _pid -> producersAlone = NOBODY :: else -> skip fi }
}

inline sharedAppend() {
  mine = HEADER(CLAIMED, length, id);
  do
  :: atomic { at + length > CELLS -> goto leaveShared }
  :: atomic { at + length <= CELLS && at + length > allocated -> allocated = CELLS }
  :: atomic { at + length <= allocated && STATE(log[at]) != FREE -> at = at + LENGTH(log[at]) }
  :: atomic { at + length <= allocated && STATE(log[at]) == FREE -> log[at] = mine; break }
  od;
  MAY_DIE;
  copy();
  MAY_DIE;
  d_step {
    if
    :: log[at] == mine -> announce(); confirm(); sawShared = true
    :: else -> robbed = true; assert(!robbed)
    fi
  };
  at = at + length
}

proctype Producer(byte id) {
  byte at = 0, length = 0, highest = 0, scrub = 0, nth = 0, bound = 0;
  bool batch = false, shared = false, mustClean = false;
  short mine = 0;
#ifdef DISPOSE_WITHOUT_DRAIN
  bool disposedEarly = false;
#endif

  /* Producers differ by their number alone: it is enough to look at the runs where they come to `open` in order. */
  atomic { openHolder == NOBODY && started == id - 1 -> started++; openHolder = _pid;
           if :: shared = false :: shared = true fi };
  if
  :: atomic { !shared && producersAlone == NOBODY && producersShared == 0 -> producersAlone = _pid }
  :: atomic { shared && producersAlone == NOBODY -> producersShared++ }
  :: atomic { producersAlone != NOBODY || (!shared && producersShared > 0) -> openHolder = NOBODY; goto done }
  fi;
  MAY_DIE;

  if
  :: shared ->
#ifdef CLEANING_OUTSIDE_OPEN
     atomic { mustClean = atWork; openHolder = NOBODY };
     if :: mustClean -> clean(); atWork = false :: else -> skip fi
#else
#ifndef SHARED_DOES_NOT_CLEAN
     if :: atWork -> clean() :: else -> skip fi;
#endif
     atWork = false
#endif
  :: !shared ->
#ifndef EXCLUSIVE_DOES_NOT_CLEAN
     if :: atWork -> clean() :: else -> skip fi;
#endif
#ifndef WORD_SET_LATE
     atWork = true
#else
     skip
#endif
  fi;
  atomic { if :: openHolder == _pid -> openHolder = NOBODY :: else -> skip fi };

  walkToTail();
  highest = at;
  do
  :: nth < APPENDS ->
     choose();
     if
     :: shared -> sharedAppend()
     :: !shared && at + length > CELLS -> break
     :: !shared && at + length <= CELLS -> exclusiveAppend()
     fi;
     nth++
  :: true -> break
  od;
  if
  :: shared ->
leaveShared:
     atomic { producersShared--; gone[id] = true; living--; goto over }
  :: !shared ->
     disposeExclusive()
  fi;
done:
  atomic { gone[id] = true; living--; goto over };
killed:
  atomic {
    gone[id] = true;
    living--;
    if :: openHolder == _pid -> openHolder = NOBODY :: else -> skip fi;
    if
    :: producersAlone == _pid -> producersAlone = NOBODY
    :: producersAlone != _pid && shared && producersShared > 0 -> producersShared--
    :: else -> skip
    fi;
over:
    at = 0; length = 0; highest = 0; scrub = 0; nth = 0; bound = 0; batch = false; shared = false; mustClean = false; mine = 0
  }
}

proctype Reader() {
  byte at = 0;
  short header = 0, seen = 0;

  do
  :: atomic { at >= CELLS -> break }
  :: atomic { at < CELLS && STATE(log[at]) == FREE && living == 0 -> break }
  :: atomic { at < CELLS && STATE(log[at]) == PADDING -> at = at + LENGTH(log[at]) }
  :: atomic { at < CELLS && STATE(log[at]) == CLAIMED && gone[REST(log[at])] -> log[at] = HEADER(PADDING, LENGTH(log[at]), 0) }
  :: atomic { at < CELLS && (STATE(log[at]) == PUBLISHED || STATE(log[at]) == GOES_ON) -> header = log[at] };
     d_step {
       forged = REST(header) >= FORGED;
       assert(!forged);
       unsaid = !(published & (1 << REST(header)));
       assert(!unsaid);
       torn = LENGTH(header) > 1 && log[at + 1] != PAYLOAD(REST(header));
       assert(!torn);
       seen = seen | (1 << REST(header));
       at = at + LENGTH(header);
       header = 0
     }
  od;
  skip;
  d_step {
    lost = (published & ~seen) != 0;
    assert(!lost)
#ifdef WITNESS
    ;
    /* Not a defect: a dead exclusive producer, the cleaning after it and a shared successor do meet in one run. */
    witness = sawCleaning && sawShared && deaths == 1;
    assert(!witness)
#endif
  }
}

init {
  atomic {
    byte id = 1;
    do :: id <= PRODUCERS -> run Producer(id); id++ :: else -> break od;
    run Reader()
  }
}
