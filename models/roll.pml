/*
Roll and retention: no message goes into a file that nobody reads.

Models SegmentRoller (step into the next segment, start over), SegmentMaker.Make (without replacing), the retention that
raises the low-water word, and the step of LogReader from one segment to the next; all in src/MappedFileQueues/Log.
docs/DESIGN.md section 2.

A segment holds one message here, so that every append rolls. A name in commitlog/ leads to a file or to none; a file that was
opened stays what it was when the name is gone or leads elsewhere. The danger: a producer sees that the next segment's name is
free, and is slow. Others make that segment, fill it and go on; it is consumed and removed; then the slow one's rename
succeeds, and it stands before an empty segment under a name that all consumers have behind them: a ghost.

Producer, when its segment is full:
  1. open the next name; if there is none, make a temp file and rename it there without replacing; open the name (whoever made
     it);
  2. read logStart again; when the segment lies below it, start over at the segment of the tail hint, step 1 without making;
  3. raise the hint to this segment, never lower it; only then claim in it.
  Killed after 1: an empty file, perhaps a ghost; it is below logStart, and the next lone opener removes it.

Retention, for the lowest segment, if it lies below the hint's and below every cursor's:
  1. raise logStart above it;
  2. unlink it.
  Killed in between: a file below logStart, which the next run unlinks.

Reader that steps into the next segment:
  1. open the name; none: below logStart it is out of range, else there is nothing yet, and the next look opens again;
  2. opened and empty: read logStart; below it is a ghost or a segment on its way out, and the reader is out of range.

What must be true:
  ghost     no message is put into a file that its name does not lead to, or into a segment below logStart;
  astray    the hint always leads to a segment that is there, never below logStart;
  lost      the consumer, whose cursor retention heeds, gets every message;
  stranded  a reader that retention does not heed ends at the tail or out of range, it never waits at a segment that is gone;
  stuck     nobody waits for ever (an invalid end state).

variant design                              holds
variant design-three-producers              holds                      -DPRODUCERS=3 -DAPPENDS=1
variant design-many-rolls                   full-holds                 -DAPPENDS=3
variant witness                             fails:witness              -DWITNESS
variant low-water-not-read                  fails:ghost                -DLOW_WATER_NOT_READ
variant low-water-read-before-making        fails:ghost                -DLOW_WATER_READ_EARLY
variant unlink-before-raise                 fails:ghost|stranded       -DUNLINK_FIRST
variant retention-takes-the-hint-s-segment  fails:astray|stuck         -DTAKES_HINT
variant hint-may-be-lowered                 fails:astray               -DHINT_LOWERED
variant rename-replaces                     fails:ghost|lost|stranded  -DRENAME_REPLACES
variant reader-waits-in-ghost               fails:stranded             -DREADER_TRUSTS_FILE
variant reader-waits-for-removed            fails:stranded             -DREADER_WAITS_FOR_REMOVED
*/

#ifndef PRODUCERS
#define PRODUCERS 2
#endif
#ifndef APPENDS
#define APPENDS 2
#endif
#define SEGMENTS (PRODUCERS * APPENDS + 1)
#define FILES    (SEGMENTS + PRODUCERS * SEGMENTS + 1)
#define NONE     0

byte file[SEGMENTS];         /* the file that the segment's name leads to */
byte message[FILES];         /* what is in a file; 0: nothing yet         */
byte made = 1;               /* files made so far                         */
byte hint = 0, logStart = 0;
byte cursor = 0;             /* the first segment that the consumer needs */
byte living = PRODUCERS;
byte started = 0;
byte count = 0;              /* messages published                        */
bool slowMade;

bool ghost, astray, lost, stranded, witness;

inline make(segment) {
  d_step {
#ifdef RENAME_REPLACES
    if
    :: true ->
#else
    if
    :: file[segment] == NONE ->
#endif
       made++; file[segment] = made;
       slowMade = slowMade || segment < logStart
    :: else -> skip
    fi
  }
}

inline checkHint() {
  astray = hint < logStart || file[hint] == NONE;
  assert(!astray)
}

proctype Producer(byte id) {
  byte at = 0, opened = 0, left = APPENDS, low = 0;
  bool mustMake = false, restart = false;

  atomic { started == id - 1 -> started++ };
  opened = file[0];
  if
  :: opened == NONE -> restart = true
  :: else -> skip
  fi;
  do
  :: left == 0 -> break
  :: left > 0 && !restart && message[opened] != 0 ->           /* full: roll */
     assert(at + 1 < SEGMENTS);
     at++;
#ifdef LOW_WATER_READ_EARLY
     low = logStart;
#endif
     mustMake = file[at] == NONE;
     if :: mustMake -> make(at) :: else -> skip fi;
     opened = file[at];
#ifndef LOW_WATER_READ_EARLY
     low = logStart;
#endif
#ifdef LOW_WATER_NOT_READ
     low = 0;
#endif
     if
     :: opened == NONE || at < low -> restart = true
#ifdef HINT_LOWERED
     :: else -> d_step { hint = at; checkHint() }
#else
     :: else -> d_step { hint = (at > hint -> at : hint); checkHint() }
#endif
     fi;
     atomic { low = 0; mustMake = false }
  :: left > 0 && restart ->
     atomic { at = hint; checkHint() };
     opened = file[at];
     restart = opened == NONE || at < logStart                 /* the hint has gone on, and retention after it */
  :: atomic { left > 0 && !restart && message[opened] == 0 ->
       ghost = file[at] != opened || at < logStart;
       assert(!ghost);
       message[opened] = id;
       count++;
       left-- }
  od;
  atomic { living--; at = 0; opened = 0; restart = false }
}

/* The consumer with a cursor: retention heeds it. */
proctype Consumer() {
  byte opened = 0, got = 0;
  do
  :: atomic { cursor < SEGMENTS && file[cursor] != NONE && message[file[cursor]] != 0 -> cursor++; got++ }
  :: atomic { living == 0 && (cursor >= SEGMENTS || file[cursor] == NONE || message[file[cursor]] == 0) -> break }
  od;
  atomic {
    lost = got != count;
    assert(!lost)
#ifdef WITNESS
    ;
    /* Not a defect: a ghost file was made, and nobody put anything into it. */
    witness = slowMade && logStart >= 2;
    assert(!witness)
#endif
  }
}

proctype Retention() {
  byte oldest = 0;
  do
  :: atomic { living == 0 -> break }
#ifdef TAKES_HINT
  :: oldest <= hint && oldest < cursor && oldest < SEGMENTS - 1 ->
#else
  :: oldest < hint && oldest < cursor ->
#endif
#ifdef UNLINK_FIRST
     file[oldest] = NONE;
     logStart = oldest + 1;
#else
     logStart = oldest + 1;
     file[oldest] = NONE;
#endif
     oldest++
  od
}

/* A reader without a cursor. */
proctype Reader() {
  byte at = 0, opened = 0;
  bool outOfRange = false;
  do
  :: atomic { at >= SEGMENTS -> break }
  :: at < SEGMENTS ->
     opened = file[at];
     if
     :: opened == NONE ->
#ifdef READER_WAITS_FOR_REMOVED
        atomic { (file[at] != NONE || living == 0) -> if :: file[at] == NONE -> break :: else -> skip fi }
#else
        atomic {
          (file[at] != NONE || at < logStart || living == 0) ->
          if
          :: at < logStart -> outOfRange = true; break
          :: at >= logStart && file[at] == NONE -> break
          :: at >= logStart && file[at] != NONE -> skip
          fi
        }
#endif
     :: opened != NONE && message[opened] != 0 -> at++
     :: opened != NONE && message[opened] == 0 ->
#ifdef READER_TRUSTS_FILE
        atomic { (message[opened] != 0 || living == 0) -> if :: message[opened] == 0 -> break :: else -> skip fi }
#else
        atomic {
          (message[opened] != 0 || at < logStart || living == 0) ->
          if
          :: message[opened] != 0 -> skip
          :: message[opened] == 0 && at < logStart -> outOfRange = true; break
          :: message[opened] == 0 && at >= logStart -> break
          fi
        }
#endif
     fi;
     opened = 0
  od;
  atomic {
    stranded = !outOfRange && at != count;
    assert(!stranded)
  }
}

init {
  atomic {
    byte id = 1;
    file[0] = 1;
    do :: id <= PRODUCERS -> run Producer(id); id++ :: else -> break od;
    run Consumer();
    run Retention();
    run Reader()
  }
}
