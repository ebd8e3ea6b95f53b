/*
A group's leases: hand out, acknowledge, give back, members that die, an operator that fences, the floor as others compute it.

Code: GroupLeases, GroupScan. Records 0 .. R1-1 are ranges: messages that are delivered for the first time. Records
R1 .. R1+R2-1 are singles: one message that came back. The state word of a record (kind, owner, tag) changes by compare-and-swap
only. Start, end and parent are plain words, which only the living owner of a Filling record writes. The bits word of a range holds
a tag and what is done. `next` (index, sequence) names the record of the last hand-out; the next one begins where that one ends. A
range is committed while `next` names it or once it is Held. A record is free when it is Done and `next` does not name it.

Hand out:   1 read next, then state and end of its record, then next again: the same; 2 the state was Filling: compare-and-swap it to
            Held; 3 take a free record (Done to Filling, tag + 1), write start, end, bits; 4 compare-and-swap next; failed: from 1,
            with the same record. Killed before 4: nothing was handed out, the record is free for whoever finds its owner dead.
Acknowledge: part: compare-and-swap bits; all that is left: state to Done.
Give back:  1 a free single to Filling, 2 write message and parent, its own tag last, 3 the bit in the parent's bits word, which
            decides, 4 Filling to Waiting. Killed between 3 and 4: whoever takes the parent over completes it.
Take over a dead owner's range: 1 state to Held by me, tag + 1; 2 the same tag into the bits word; 3 settle what the dead one has half
            given back: its bit is set: Waiting; not set, and filled under an older tag: free; 4 give back what is undone; 5 Done.
A dead owner's single: Held to Waiting.
Floor:      1 next and its end, 2 the ranges (Filling counts only when next named it then, and still does), 3 the singles.

What must be true:
  twice    no two members have one message in hand, unless an operator has fenced one of them;
  doubled  no message stands in two singles, and none that is done comes back, unless an operator has fenced a member;
  early    what lies before the floor is done;
  back     the floor is not below what was the first message that was not done when the look began,
           where none was given back and no member fenced;
  stuck    in the end every message is done: while one is not, some living member has something to do.

variant design                     holds
variant design-rejects             full-holds                -DREJECTS=1
variant design-two-deaths          full-holds                -DDEATHS=2 -DMEMBERS=3 -DMSGS=1 -DBATCH=1 -DR2=1
variant design-floor               full-holds                -DOBSERVER -DBATCH=1
variant design-fence               full-holds                -DFENCES=1 -DBATCH=1 -DREJECTS=1 -DMSGS=1
variant design-three-messages      full-holds                -DMSGS=3 -DR2=3
variant witness                    fails:witness             -DWITNESS
variant not-confirmed              fails:stuck|twice|doubled -DNO_CONFIRM
variant state-read-late            fails:doubled|twice       -DSTATE_READ_LATE
variant bit-before-content         fails:stuck               -DBIT_BEFORE_FILLED -DREJECTS=1
variant not-settled                fails:stuck               -DNO_SETTLE -DREJECTS=1
variant tag-not-in-bits            full-fails:stuck|doubled  -DFENCES=1 -DDEATHS=1 -DBATCH=1 -DREJECTS=1 -DMSGS=1 -DNO_TURN
variant singles-before-ranges      fails:early               -DOBSERVER -DSINGLES_FIRST -DBATCH=1 -DREJECTS=1 -DDEATHS=0 -DMSGS=1
variant next-not-read-again        full-fails:back           -DOBSERVER -DNEXT_NOT_READ_AGAIN -DBATCH=1 -DDEATHS=0
variant stopped-is-dead            fails:twice               -DSTOPPED_IS_DEAD -DDEATHS=0
variant freed-under-next           fails:stuck|twice|doubled -DNAMED_REUSED -DDEATHS=0
*/
#ifndef MEMBERS
#define MEMBERS 2
#endif
#ifndef MSGS
#define MSGS 2
#endif
#ifndef BATCH
#define BATCH 2
#endif
#ifndef R1
#define R1 3
#endif
#ifndef R2
#define R2 2
#endif
#ifndef DEATHS
#define DEATHS 1
#endif
#ifndef REJECTS
#define REJECTS 0
#endif
#ifndef FENCES
#define FENCES 0
#endif
#define R (R1 + R2)
#define DONE 0
#define FILLING 1
#define HELD 2
#define WAITING 3
#define NOBODY 15
byte nIdx, nSeq;
byte kind[R], own[R], tag[R];
byte st[R], en[R], par[R], ptag[R], ctag[R];
byte btag[R1], bdone[R1];            /* bit i: message st + i */
bool dead[MEMBERS], fenced[MEMBERS];
byte finished;                        /* bit m */
byte inHand[MEMBERS];                 /* bit m: in the user's hands */
byte inReturns;                       /* bit m: stands in a single record that is active: for the check "twice" */
byte died, rejected, fences, chg, moved;
bool twice, doubled, early, back, lost, witness;
#define CHG chg = (chg + 1) % 32
#define BIT(m) (1 << (m))
#define ALLDONE ((1 << MSGS) - 1)
#ifdef STOPPED_IS_DEAD
#define GONE(x) (x == NOBODY || dead[x] || inHand[x] != 0)
#else
#define GONE(x) (x == NOBODY || dead[x] || fenced[x])
#endif
#define MAY_DIE if :: atomic { died < DEATHS -> died++; dead[me] = true; inHand[me] = 0; CHG; goto gone } :: true fi

inline give(mask) {
  d_step {
    t = 0;
    do :: t < MEMBERS -> if :: t != me && !fenced[me] && !dead[t] && !fenced[t] && (inHand[t] & (mask)) -> twice = true :: else -> skip fi; t++ :: else -> break od;
    t = 0; inHand[me] = inHand[me] | (mask)
  }
  assert(!twice)
}

/* a single record becomes active: no second one of the same message may be */
inline activate(c) {
  d_step {
    t = R1;
    do :: t < R -> if :: t != c && kind[t] >= HELD && st[t] == st[c] -> doubled = true :: else -> skip fi; t++ :: else -> break od;
    if :: (finished & BIT(st[c])) && fences == 0 -> doubled = true :: else -> skip fi;
    t = 0; moved = 1
  }
  assert(!doubled)
}

/* gives message i of range a (held under tag at) back: a single record, the bit in the range, the record counts */
inline giveBack(a, at, i) {
  c = R1;
  do
  :: c < R -> if :: atomic { kind[c] == DONE -> kind[c] = FILLING; own[c] = me; tag[c]++; CHG }; break :: else -> c++ fi
  :: else -> break
  od;
  if
  :: c < R ->
     MAY_DIE;
#ifdef BIT_BEFORE_FILLED
     atomic { ok = (btag[a] == at && !(bdone[a] & BIT(i))); if :: ok -> bdone[a] = bdone[a] | BIT(i); CHG :: else -> skip fi };
     MAY_DIE;
     st[c] = st[a] + i; par[c] = a; ptag[c] = at; ctag[c] = tag[c];
#else
     st[c] = st[a] + i; par[c] = a; ptag[c] = at; 
     MAY_DIE;
     ctag[c] = tag[c];
     MAY_DIE;
     atomic { ok = (btag[a] == at && !(bdone[a] & BIT(i))); if :: ok -> bdone[a] = bdone[a] | BIT(i); CHG :: else -> skip fi };
#endif
     MAY_DIE;
     atomic {
       if
       :: kind[c] == FILLING && own[c] == me && ctag[c] == tag[c] ->
          CHG;
          if :: ok -> kind[c] = WAITING; own[c] = 0; activate(c) :: else -> kind[c] = DONE fi
       :: else -> skip
       fi
     }
  :: else -> skip
  fi;
  c = 0; ok = false
}

/* takes range a over, seen as (x, at), and gives back what is undone */
inline takeOver(a, x, at) {
  atomic {
    ok = ((kind[a] == HELD || (kind[a] == FILLING && nIdx == a)) && own[a] == x && tag[a] == at);
    if :: ok -> kind[a] = HELD; own[a] = me; tag[a] = at + 1; CHG :: else -> skip fi
  };
  if
  :: ok ->
     ok = false;
     MAY_DIE;
#ifndef NO_TURN
     atomic { bold = btag[a]; btag[a] = at + 1 };     /* compare-and-swap from what was read: bits are kept */
#else
     bold = btag[a];
#endif
     MAY_DIE;
#ifndef NO_SETTLE
     /* settle what the one before has half made */
     c = R1;
     do
     :: c < R ->
        atomic {
          if
          :: kind[c] == FILLING && ctag[c] == tag[c] && par[c] == a && st[c] >= st[a] && st[c] < en[a] && own[c] != me ->
             if
             :: (bdone[a] & BIT(st[c] - st[a])) -> kind[c] = WAITING; own[c] = 0; CHG; activate(c)
             :: !(bdone[a] & BIT(st[c] - st[a])) && ptag[c] <= at -> kind[c] = DONE; CHG
             :: else -> skip
             fi
          :: else -> skip
          fi
        };
        MAY_DIE;
        c++
     :: else -> break
     od;
#endif
     c = 0; b = 0;
     do
     :: b < en[a] - st[a] ->
        if :: !(bdone[a] & BIT(b)) -> giveBack(a, btag[a], b) :: else -> skip fi;
        b++
     :: else -> break
     od;
     b = 0;
     /* all given back? a full table leaves the rest for later */
     if
     :: (bdone[a] & (BIT(en[a] - st[a]) - 1)) == BIT(en[a] - st[a]) - 1 ->
        MAY_DIE;
        atomic { if :: kind[a] == HELD && own[a] == me -> kind[a] = DONE; CHG :: else -> skip fi }
     :: else -> atomic { if :: kind[a] == HELD && own[a] == me -> own[a] = NOBODY; CHG :: else -> skip fi }
     fi
  :: else -> skip
  fi;
  ok = false; bold = 0
}

active [MEMBERS] proctype Member()
{
  byte me = _pid, p, s, e, k, q, qt, t, r, c, b, bold, x, xt, seen, m, pk, po, pt;
  bool ok, got, has;
loop:
  MAY_DIE;
  seen = chg; got = false;
  /* what came back, first */
  r = R1;
  do
  :: r < R && !got ->
     if
     :: atomic { kind[r] == WAITING -> kind[r] = HELD; own[r] = me; tag[r]++; xt = tag[r]; got = true; CHG }
     :: else -> r++
     fi
  :: else -> break
  od;
  if
  :: got ->
     m = st[r];
     atomic { give(BIT(m)) };
     MAY_DIE;
     if
     :: atomic { kind[r] == HELD && own[r] == me && tag[r] == xt -> kind[r] = DONE; finished = finished | BIT(m); inHand[me] = inHand[me] & ~BIT(m); CHG }
     :: else -> inHand[me] = inHand[me] & ~BIT(m)    /* fenced */
     fi;
     r = 0; xt = 0; m = 0;
     goto loop
  :: else -> r = 0
  fi;
  /* new messages */
again:
  atomic { p = nIdx; s = nSeq };
#ifndef STATE_READ_LATE
  atomic { pk = kind[p]; po = own[p]; pt = tag[p] };
#endif
  e = en[p];
  if :: atomic { nIdx != p || nSeq != s -> p = 0; s = 0; e = 0; pk = 0; po = 0; pt = 0 }; goto again :: else -> skip fi;
  if
  :: e < MSGS ->
#ifdef STATE_READ_LATE
     atomic { pk = kind[p]; po = own[p]; pt = tag[p] };
#endif
#ifndef NO_CONFIRM
     if :: pk == FILLING -> atomic { if :: kind[p] == FILLING && own[p] == po && tag[p] == pt -> kind[p] = HELD; CHG :: else -> skip fi } :: else -> skip fi;
#endif
     pk = 0; po = 0; pt = 0;
     if :: k = 1 :: e + 1 < MSGS && BATCH > 1 -> k = 2 fi;
     if
     :: !has ->
        q = 0;
        do
        :: q < R1 ->
           if
           :: atomic { kind[q] == DONE -> qt = tag[q] };
              if
#ifdef NAMED_REUSED
              :: true ->
#else
              :: nIdx != q ->
#endif
                 atomic { ok = (kind[q] == DONE && tag[q] == qt); if :: ok -> kind[q] = FILLING; own[q] = me; tag[q] = qt + 1; CHG :: else -> skip fi };
                 if :: ok -> break :: else -> q++ fi
#ifndef NAMED_REUSED
              :: else -> q++
#endif
              fi
           :: else -> q++
           fi
        :: else -> break
        od;
        qt = 0
     :: else -> skip
     fi;
     if
     :: q < R1 -> 
        has = true; ok = false;
        MAY_DIE;
        st[q] = e; en[q] = e + k; btag[q] = tag[q]; bdone[q] = 0;
        MAY_DIE;
        atomic { ok = (nIdx == p && nSeq == s); if :: ok -> nIdx = q; nSeq = s + 1; CHG :: else -> skip fi };
        if :: !ok -> p = 0; s = 0; e = 0; k = 0; goto again :: else -> skip fi;
        ok = false; has = false; p = 0; s = 0; qt = btag[q];
        if
        :: k == 1 -> atomic { give(BIT(e)) }
        :: else -> atomic { give(BIT(e) | BIT(e + 1)) }
        fi;
        MAY_DIE;
        if
        :: atomic { rejected < REJECTS -> rejected++ };
           /* gives the first one back, acknowledges the rest */
           inHand[me] = inHand[me] & ~BIT(e);
           giveBack(q, qt, 0);
           MAY_DIE
        :: k == 2 ->
           /* acknowledges one first */
           atomic { if :: btag[q] == qt && !(bdone[q] & 1) -> bdone[q] = bdone[q] | 1; finished = finished | BIT(e); CHG :: else -> skip fi; inHand[me] = inHand[me] & ~BIT(e) };
           MAY_DIE
        :: true
        fi;
        /* acknowledges all that is left, by the state word alone */
        atomic {
          if
          :: (kind[q] == HELD || kind[q] == FILLING) && own[q] == me && tag[q] == qt ->
             if :: !(bdone[q] & 1) -> finished = finished | BIT(e) :: else -> skip fi;
             if :: k == 2 && !(bdone[q] & 2) -> finished = finished | BIT(e + 1) :: else -> skip fi;
             kind[q] = DONE; CHG
          :: else -> skip
          fi;
          inHand[me] = 0; q = 0; qt = 0; k = 0; e = 0
        };
        goto loop
     :: else -> q = 0; p = 0; s = 0; e = 0; k = 0; ok = false
     fi
    :: else -> p = 0; s = 0; e = 0; pk = 0; po = 0; pt = 0
  fi;
  /* look: what the dead hold */
  r = 0;
  do
  :: r < R1 && !got ->
     if
     :: atomic { kind[r] == HELD && own[r] != me && GONE(own[r]) -> x = own[r]; xt = tag[r]; got = true }; takeOver(r, x, xt); x = 0; xt = 0
     :: atomic { kind[r] == FILLING && own[r] != me && GONE(own[r]) -> x = own[r]; xt = tag[r] };
        if
        :: nIdx == r -> got = true; takeOver(r, x, xt)
        :: else ->
           if
           :: dead[x] -> got = true; atomic { if :: kind[r] == FILLING && own[r] == x && tag[r] == xt -> kind[r] = DONE; CHG :: else -> skip fi }
           :: else -> r++
           fi
        fi; x = 0; xt = 0
     :: else -> r++
     fi
  :: else -> break
  od;
  if :: got -> r = 0; goto loop :: else -> skip fi;
  r = R1;
  do
  :: r < R && !got ->
     if
     :: atomic { kind[r] == HELD && own[r] != me && GONE(own[r]) -> kind[r] = WAITING; own[r] = 0; tag[r]++; got = true; CHG }
     :: atomic { kind[r] == FILLING && own[r] != me && dead[own[r]] &&
                 (ctag[r] != tag[r] || st[r] < st[par[r]] || st[r] >= en[par[r]] || kind[par[r]] == DONE) -> kind[r] = DONE; got = true; CHG }
     :: else -> r++
     fi
  :: else -> break
  od;
  r = 0;
  if :: got -> goto loop :: else -> skip fi;
  atomic {
#ifdef WITNESS
    if :: finished == ALLDONE && moved && died == DEATHS && rejected == REJECTS -> witness = true; assert(!witness) :: else -> skip fi;
#endif
    if :: finished == ALLDONE && en[nIdx] == MSGS -> goto gone :: else -> skip fi
  };
  if :: atomic { chg != seen -> seen = 0 } fi;
  goto loop;
gone:
  skip
}

#ifdef OBSERVER
#define IN_PARENT(r) (kind[par[r]] != DONE && st[r] >= st[par[r]] && st[r] < en[par[r]])
#define IS_OUT(r) (kind[r] != DONE && (kind[r] != FILLING || ctag[r] == tag[r] && IN_PARENT(r)))
/* the floor as retention computes it: next, then the ranges, then the singles */
active proctype Observer()
{
  byte p, s, e, r, least, t, before;
  do
  :: atomic {
       p = nIdx; s = nSeq; before = 0;
       do :: before < MSGS && (finished & BIT(before)) -> before++ :: else -> break od
     };
     e = en[p];
     if :: atomic { nIdx == p && nSeq == s } -> break :: else -> skip fi
  od;
  least = e; if :: e < before -> before = e :: else -> skip fi; e = 0;
#ifdef SINGLES_FIRST
  r = R1;
  do :: r < R -> atomic { if :: IS_OUT(r) && st[r] < least -> least = st[r] :: else -> skip fi }; r++ :: else -> break od;
#endif
  r = 0;
  do
  :: r < R1 ->
range:
     if
     :: atomic { kind[r] == HELD -> if :: st[r] < least -> least = st[r] :: else -> skip fi }
     :: atomic { kind[r] == FILLING && r == p -> t = tag[r] };
#ifndef NEXT_NOT_READ_AGAIN
        if
        :: atomic { nIdx != p || nSeq != s };
           if
           :: atomic { kind[r] == FILLING && tag[r] == t -> t = 0 }; goto ranged
           :: else -> t = 0; goto range
           fi
        :: else -> skip
        fi;
#endif
        /* start, and the state again */
        atomic { if :: kind[r] == FILLING && tag[r] == t -> if :: st[r] < least -> least = st[r] :: else -> skip fi; t = 0 :: else -> t = 0; goto range fi }
     :: else -> skip
     fi;
ranged:
     r++
  :: else -> break
  od;
#ifndef SINGLES_FIRST
  r = R1;
  do :: r < R -> atomic { if :: IS_OUT(r) && st[r] < least -> least = st[r] :: else -> skip fi }; r++ :: else -> break od;
#endif
  atomic {
    t = 0; do :: t < least -> if :: !(finished & BIT(t)) -> early = true :: else -> skip fi; t++ :: else -> break od; assert(!early);
#if REJECTS == 0 && FENCES == 0
    /* A range holds the floor until all of it has ended, what it has given back included. */
    if :: least < before -> back = true :: else -> skip fi; assert(!back)
#endif
  }
}
#endif

#if FENCES > 0
active proctype Operator()
{
  if
  :: atomic { inHand[0] != 0 && !dead[0] -> fenced[0] = true; fences++; CHG }
  :: true
  fi
}
#endif

