/*
Followers of a flush: who waits for one is never left asleep, although a flush wakes only those whom it has served and one more.

Models GroupCommitGate and FlushEngine (WaitFor, Lead, Follow); all in src/MappedFileQueues/Log. docs/DESIGN.md section 4. Threads
of one process; the lock between processes and the disk are left out, a flush is one step. Nobody dies here: a process dies as a
whole, and other processes sleep on words of their own (wait.pml).

There is no time-out here but the impatient caller's: one would hide every defect for as long as it lasts.

Caller, its place claimed and then published, until confirmed has reached it:
  1. nobody leads: take the lead (compare-and-swap), lead, leave;
  2. else group = the open one, word = that group's word, in this order;
  3. raise the mark `asleep` to the group, unless it is as high already (a full fence if it is not);
  4. look again: confirmed has reached it, nobody leads, the group was served: from the start;
  5. futex wait while the word is as it was.
  Woken: it may have been called to lead, unless its group was served. Whoever may have been called and goes without having led
  or found a leader calls the next one. (A call can hit one of an older group on the same word, who was served and goes silently.
  But then the leader who served that group has yet to wake it, and wakes everybody on the word.)
Leader:
  1. close the open group (interlocked; the next one opens), then walk: to the first place that was not published;
  2. sync, raise confirmed;
  3. mark the closed group as served;
  4. leave the lead (full fence);
  5. `asleep` at or above the open group: bump its word, wake one;
  6. `asleep` at or above the served group: bump its word, wake all.
  A leader whose own place lies behind one that was claimed and not published marks and wakes those whom it has served (3, 6),
  waits for the place, and begins again with 1.
Somebody who leads and does not flush (the lock was taken, the disk failed) does 3 to 6 all the same.

What must be true:
  stuck       nobody sleeps for ever (an invalid end state).

variant design                       holds
variant design-one-word              holds         -DWORDS=1
variant design-four-words            holds         -DWORDS=4
variant design-first-is-impatient    holds         -DIMPATIENT=0
variant design-last-is-impatient     holds         -DIMPATIENT=2
variant design-holes                 full-holds    -DHOLES
variant design-idle-leader           full-holds    -DIDLE_LEADER
variant witness                      fails:witness -DWITNESS
variant no-second-look               fails:stuck   -DNO_SECOND_LOOK
variant word-read-after-look         fails:stuck   -DWORD_READ_LATE
variant raise-without-fence          fails:stuck   -DRAISE_BUFFERED
variant nobody-called                fails:stuck   -DNOBODY_CALLED
variant called-before-leaving        fails:stuck   -DCALLED_BEFORE_LEAVING
variant called-one-goes-silently     fails:stuck   -DSILENT -DIMPATIENT=1
variant idle-leader-calls-nobody     fails:stuck   -DIDLE_LEADER -DIDLE_IS_SILENT
variant served-not-looked-at         fails:stuck   -DSERVED_NOT_LOOKED_AT -DHOLES
variant no-bump                      fails:stuck   -DNO_BUMP
*/

#ifndef WORDS
#define WORDS 2
#endif
#define CALLERS 3            /* one message each: who has returned comes back as another */
#define AWAKE   255

bool published[CALLERS + 1];
byte claimed = 0, confirmed = 0;
byte open = 1, served = 0, asleep = 0;
byte word[WORDS];
byte sleepsOn[CALLERS];
bool taken = false, witness;
bool raisePending[CALLERS];
byte raiseValue[CALLERS];

inline bump(g) {
#ifndef NO_BUMP
  word[g % WORDS]++
#else
  skip
#endif
}

/* One sleeper on the word, whichever; nobody may be there. */
inline wakeOne(g) {
  bump(g);
  atomic {
    if
    :: sleepsOn[0] == g % WORDS -> sleepsOn[0] = AWAKE
    :: sleepsOn[1] == g % WORDS -> sleepsOn[1] = AWAKE
    :: sleepsOn[2] == g % WORDS -> sleepsOn[2] = AWAKE
    :: else -> skip
    fi
  }
}

inline wakeAll(g) {
  bump(g);
  d_step {
    other = 0;
    do
    :: other < CALLERS ->
       if :: sleepsOn[other] == g % WORDS -> sleepsOn[other] = AWAKE :: else -> skip fi;
       other++
    :: else -> break
    od;
    other = 0
  }
}

inline callNext() {
#ifndef NOBODY_CALLED
  seen = open;
  if :: asleep >= seen -> wakeOne(seen) :: else -> skip fi;
  seen = 0
#else
  skip
#endif
}

inline wakeServed() {
  if :: asleep >= closed -> wakeAll(closed) :: else -> skip fi
}

inline endServing() {
  d_step { closed = open - 1; served = closed }
}

inline leave() {
  endServing();
#ifdef CALLED_BEFORE_LEAVING
  callNext();
  taken = false;
#else
  taken = false;
  callNext();
#endif
  wakeServed();
  closed = 0
}

/* The walk and the sync: what was published without a hole when the walk came there. */
inline flush() {
  open++;
  d_step {
    do
    :: published[confirmed] -> confirmed++
    :: !published[confirmed] -> break
    od
  }
}

proctype Caller(byte me) {
  byte goal, group, w, closed, seen, other;
  bool called = false;

#ifdef HOLES
  d_step { claimed == me -> claimed++; goal = claimed };
  published[goal - 1] = true;
#else
  d_step { claimed == me -> claimed++; goal = claimed; published[goal - 1] = true };
#endif
  do
  :: confirmed >= goal -> break
#ifdef IMPATIENT
  :: me == IMPATIENT && confirmed < goal -> break
#endif
  :: confirmed < goal ->
     if
     :: atomic { !taken -> taken = true; called = false };
        do
        :: true ->
           flush();
           if
           :: confirmed >= goal -> break
           :: else ->
              endServing();
              wakeServed();
              closed = 0;
              published[confirmed]
           fi
        od;
        leave()
     :: atomic { taken -> called = false };
        group = open;
#ifndef WORD_READ_LATE
        w = word[group % WORDS];
#endif
#ifdef RAISE_BUFFERED
        d_step { raisePending[me] = true; raiseValue[me] = group };
#else
        d_step { if :: asleep < group -> asleep = group :: else -> skip fi };
#endif
#ifndef NO_SECOND_LOOK
        if :: confirmed >= goal -> goto again :: else -> skip fi;
        if :: !taken -> goto again :: else -> skip fi;
#ifndef SERVED_NOT_LOOKED_AT
        if :: served >= group -> goto again :: else -> skip fi;
#endif
#endif
#ifdef WORD_READ_LATE
        w = word[group % WORDS];
#endif
        if
        :: atomic { word[group % WORDS] == w -> sleepsOn[me] = group % WORDS };
           if
           :: sleepsOn[me] == AWAKE -> skip
#ifdef IMPATIENT
           :: me == IMPATIENT -> sleepsOn[me] = AWAKE
#endif
           fi
        :: word[group % WORDS] != w -> skip
        fi;
        called = served < group;
again: skip;
        d_step { group = 0; w = 0 }
     fi
  od;
  if
#ifndef SILENT
  :: called && !taken -> callNext()
#endif
  :: else -> skip
  fi;
  d_step { called = false; goal = 0 }
}

#ifdef IDLE_LEADER
proctype IdleLeader() {
  byte closed, seen, other;
  if
  :: atomic { !taken -> taken = true };
#ifdef IDLE_IS_SILENT
     taken = false
#else
     leave()
#endif
  :: taken -> skip
  fi
}
#endif

#ifdef RAISE_BUFFERED
proctype RaiseBuffer(byte me) {
endBuffer:
  do
  :: d_step {
       raisePending[me] -> raisePending[me] = false;
       if :: asleep < raiseValue[me] -> asleep = raiseValue[me] :: else -> skip fi
     }
  od
}
#endif

#ifdef WITNESS
/* Not a defect: one flush ends while one caller sleeps in its group and another in the next one. */
proctype Judge() {
endJudge:
  atomic {
    served == open - 1 && taken && asleep == open && sleepsOn[1] == served % WORDS && sleepsOn[2] == open % WORDS;
    witness = true;
    assert(!witness)
  }
}
#endif

init {
  atomic {
    byte id = 0;
    do :: id < CALLERS -> sleepsOn[id] = AWAKE; id++ :: else -> break od;
    id = 0;
    do :: id < CALLERS -> run Caller(id); id++ :: else -> break od;
#ifdef IDLE_LEADER
    run IdleLeader();
#endif
#ifdef WITNESS
    run Judge();
#endif
#ifdef RAISE_BUFFERED
    id = 0;
    do :: id < CALLERS -> run RaiseBuffer(id); id++ :: else -> break od;
#endif
    skip
  }
}
