/*
A producer with an id (src/MappedFileQueues/Log/Sequences): what it knows of its own messages after kills, removals and a power
loss. All messages of the log are its own, so the message at offset n has the sequence n + 1, and "knows too little" and "knows
too much" are comparisons of numbers.

Produce:    1 publish the message with its sequence; 2 count it, in the process's own memory.
Note:       once the noted message is durable: 1 raise S; 2 raise O; then note the newest.
Remove:     1 raise the log start to a limit; 2 record the limit on disk; 3 raise the durable word to it; 4 settle: scan [O, limit),
            or to the durable offset, raise S; 5 raise O; 6 sync the file; 7 the segments go. The remover may die after each.
Write back: the system may write the file's page at any time.
Open:       last = the highest of S and the sequences in [O, end), as far as their segments are there.
Power loss: the file is what was written last; of the log what was flushed is there, and what was recorded as removed is gone.
            Recovery settles what it removes, then the producer opens.

What must be true when the producer is opened:
  high     it knows no sequence that the log does not hold: that message would be refused, and be lost;
  low      it knows every sequence that was published, or after a power loss flushed: a repetition would be appended twice.

variant design             holds
variant design-four        full-holds         -DMESSAGES=4
variant witness            fails:witness      -DWITNESS
variant hint-above-durable fails:high         -DHINT_ABOVE_DURABLE
variant not-settled        fails:low          -DNOT_SETTLED
variant settled-early      fails:high         -DSETTLED_BEFORE_RECORD
variant settled-not-synced fails:low          -DNOT_SYNCED
variant ahead-not-synced   fails:low          -DAHEAD_NOT_SYNCED
variant offset-first       fails:low          -DOFFSET_FIRST
variant from-log-start     fails:low          -DFROM_LOG_START
variant leftovers-unread   fails:low          -DLEFTOVERS_UNREAD
*/
#ifndef MESSAGES
#define MESSAGES 3
#endif

byte tail, flushed, durable;      /* published; on disk; the durable word */
byte start, recorded, gone;       /* the log start; as it is on disk; segments before it are unlinked */
byte seq, off;                    /* the file in memory: S and O */
byte seqDisk, offDisk;            /* as it was written last */
byte last, noted;                 /* the producer's own */
byte limit, step, producing, noting;
bool isOver, high, low, witness;

#define MAX(a, b) ((a) > (b) -> (a) : (b))

/* What the scan of [from, to) finds: segments before `gone` are not there. */
#define SCAN(from, to) ((to) > MAX(from, gone) -> (to) : 0)

inline open_producer(known) {
#ifdef FROM_LOG_START
  last = MAX(seq, SCAN(MAX(off, start), tail));
#else
  last = MAX(seq, SCAN(off, tail));
#endif
  if :: last > tail -> high = true :: else fi;
  if :: last < known -> low = true :: else fi;
  assert(!high);
  assert(!low);
  noted = last;
  producing = 0;
  noting = 0
}

proctype World() {
  do
  :: isOver -> break

  /* produce */
  :: atomic { !isOver && producing == 0 && tail < MESSAGES -> tail++; producing = 1 }
  :: atomic { !isOver && producing == 1 -> last = tail; producing = 0 }

  /* flush */
  :: atomic { !isOver && flushed < tail -> flushed = tail; durable = MAX(durable, tail) }

  /* note */
#ifdef HINT_ABOVE_DURABLE
  :: atomic { !isOver && noting == 0 && noted > off ->
#else
  :: atomic { !isOver && noting == 0 && noted > off && durable >= noted ->
#endif
#ifdef OFFSET_FIRST
       off = MAX(off, noted); noting = 1 }
  :: atomic { !isOver && noting == 1 -> seq = MAX(seq, noted); noting = 2 }
#else
       seq = MAX(seq, noted); noting = 1 }
  :: atomic { !isOver && noting == 1 -> off = MAX(off, noted); noting = 2 }
#endif
  :: atomic { !isOver && noting == 2 -> noted = last; noting = 0 }
  :: atomic { !isOver && noting == 0 && noted <= off && noted < last -> noted = last }

  /* the system writes the page */
  :: atomic { !isOver && (seqDisk != seq || offDisk != off) -> seqDisk = seq; offDisk = off }

  /* remove */
  :: atomic { !isOver && step == 0 && start < tail ->
       limit = start + 1;
       do :: limit < tail -> limit++ :: break od;
       start = limit; step = 1 }
#ifdef SETTLED_BEFORE_RECORD
  :: atomic { !isOver && step == 1 -> seq = MAX(seq, SCAN(off, limit)); off = MAX(off, limit); step = 2 }
#else
  :: atomic { !isOver && step == 1 -> step = 2 }
#endif
  :: atomic { !isOver && step == 2 -> recorded = limit; step = 3 }
  :: atomic { !isOver && step == 3 -> durable = MAX(durable, limit); step = 4 }
#ifdef NOT_SETTLED
  :: atomic { !isOver && step == 4 -> step = 7 }
#elif defined(AHEAD_NOT_SYNCED)
  :: atomic { !isOver && step == 4 && off >= limit -> step = 7 }
  :: atomic { !isOver && step == 4 && off < limit -> seq = MAX(seq, SCAN(off, limit)); step = 5 }
#else
  :: atomic { !isOver && step == 4 -> seq = MAX(seq, SCAN(off, limit)); step = 5 }
#endif
  :: atomic { !isOver && step == 5 -> off = MAX(off, limit); step = 6 }
#ifdef NOT_SYNCED
  :: atomic { !isOver && step == 6 -> step = 7 }
#else
  :: atomic { !isOver && step == 6 -> seqDisk = seq; offDisk = off; step = 7 }
#endif
  :: atomic { !isOver && step == 7 -> gone = limit; step = 0 }
  /* the remover dies; the next one begins with what is left over */
  :: atomic { !isOver && step > 1 -> step = 1 }

  /* the producer dies, and another one opens the id */
  :: atomic { !isOver -> open_producer(tail) }

  /* power loss */
  :: atomic { !isOver ->
       seq = seqDisk; off = offDisk;
       tail = MAX(flushed, recorded); start = recorded;
#ifndef LEFTOVERS_UNREAD
       /* Recovery settles before it deletes. What was recorded as removed and never flushed is not there to be read. */
       if
       :: recorded > gone ->
            seq = MAX(seq, SCAN(off, (flushed < recorded -> flushed : recorded)));
            off = MAX(off, recorded)
       :: else
       fi;
#endif
       gone = MAX(gone, recorded);
       open_producer(flushed);
#ifdef WITNESS
       if :: gone > 0 && last > 0 && flushed < tail -> witness = true :: else fi;
       assert(!witness);
#endif
       isOver = true }
  od
}

init { run World() }
