------------------------------ MODULE Penstock ------------------------------
(***************************************************************************)
(* How Penstock lands a log in tables exactly once, as it is built.        *)
(* Names are the code's: Decide is core/decide.py, Turn is commit/once.py  *)
(* and two_phase.py, Epoch, Open and Begin are in landing/.  Witnesses are *)
(* those of Iceberg.  Read docs/explanation/exactly-once.md first.         *)
(*                                                                         *)
(* Lives of coordinators never have to take a step again: each may be      *)
(* killed, or be a zombie, at any moment; several live at once.  Requests  *)
(* arrive late, never, or twice; answers are never relied upon, so they    *)
(* are not modelled.  Faults named in the configuration strike, MaxFaults  *)
(* in all.  Defences named in Off are off: with none off every invariant   *)
(* holds, and each one taken away alone breaks one.                        *)
(*                                                                         *)
(* Left to tests: rules that change (leveling), tables that are born late, *)
(* stores restored from a backup, Delta's log, and time.                   *)
(***************************************************************************)
EXTENDS Integers, Sequences, FiniteSets

CONSTANTS
  Tables,      \* the target tables, such as {"a", "b"}
  Sources, First, \* topic partitions: all, and those at the beginning; "retopic" brings the next
  N, Early,    \* records in a source, at offsets 0 .. N - 1, and how many are there at once
  Shape,       \* which records are rows, bad or nothing: see Kind
  Lives,       \* 1 .. n: coordinators
  OneHost,     \* TRUE: they share one pending store; FALSE: each has its own
  Latest,      \* TRUE: `start: latest`; FALSE: earliest
  MaxEpochs,   \* epochs of one life
  MaxWaiting,  \* commits of one table that may wait (pending.max_epochs)
  Faults, MaxFaults, Off

VARIABLES
  log,    \* [end, low: source -> offset; live: sources that are there]
  tab,    \* physical table -> [uuid, sch, head, snaps, led]
  net,    \* requests on their way
  store,  \* host -> [gen, own, rows, exam]: the pending store
  life,   \* coordinator -> [ph, gen, re, ep, trk]
  away,   \* physical tables that do not answer
  ghost   \* what only the invariants know

vars == <<log, tab, net, store, life, away, ghost>>
Q        == "quarantine"
Phys     == Tables \union {Q}
On(d)    == d \notin Off
Key(s)   == IF On("topic id") THEN s ELSE 1    \* without ids, a topic is its name
Keys     == {Key(s) : s \in Sources}
Host(c)  == IF OneHost THEN 1 ELSE c
Hosts    == {Host(c) : c \in Lives}
None     == [k \in Keys |-> -1]
Zero     == [k \in Keys |-> 0]
Max(S)   == CHOOSE x \in S : \A y \in S : y <= x
Range(f) == {f[i] : i \in DOMAIN f}
(* Is a record a row of the table, bad, or nothing to it?  "widen": bad until the schema changes; *)
(* "narrow": a row until then.                                                                    *)
Kind(t, o) ==
  CASE Shape = "rows"   -> "row"
    [] Shape = "mixed"  -> IF t = "a" THEN <<"bad", "row", "row">>[o + 1]
                                      ELSE <<"row", "none", "bad">>[o + 1]
    [] Shape = "widen"  -> <<"widen", "row", "row">>[o + 1]
    [] Shape = "narrow" -> <<"narrow", "bad", "row">>[o + 1]
Verdict(t, o, sch) ==
  CASE Kind(t, o) = "widen"  -> IF sch = 1 THEN "bad" ELSE "row"
    [] Kind(t, o) = "narrow" -> IF sch = 1 THEN "row" ELSE "bad"
    [] OTHER -> Kind(t, o)
-----------------------------------------------------------------------------
(* Tables: snapshots with parents, a ledger for each chain, one compare-and-set.                  *)
(* A commit's id is its ranges and nothing else; an attempt is a life and its epoch.  As numbers. *)
IdOf(from, to) == LET d(k) == IF k \in Keys THEN 10 * from[k] + to[k] ELSE 0 IN d(1) + 100 * d(2)
Nonce(c, n) == 10000 + 1000 * c + n
NoId == 0
NoLedger == [is |-> FALSE, offs |-> None, gen |-> 0, own |-> 0, recent |-> {}, last |-> NoId]
NewTable == [uuid |-> 1, sch |-> 1, head |-> 0, snaps |-> <<>>,
             led |-> [t \in Tables |-> NoLedger]]
Expired  == [par |-> 0, of |-> "", id |-> NoId, told |-> FALSE, files |-> <<>>]
Files(p) == IF tab[p].head = 0 THEN <<>> ELSE tab[p].snaps[tab[p].head].files
Live(p, t) == {f \in Range(Files(p)) : f.t = t}
Rows(p, t) == UNION {f.rows : f \in Live(p, t)}
RECURSIVE Newest(_, _, _)   \* newest own snapshot on the ancestry; 0: none; -1: cut off by expiry
Newest(snaps, i, t) ==
  IF i = 0 THEN 0 ELSE IF ~snaps[i].told THEN -1
  ELSE IF snaps[i].of = t THEN i ELSE Newest(snaps, snaps[i].par, t)
(* Two witnesses and a third: the summary on the ancestry, the property, the live files.          *)
Witness(p, t) ==
  LET L == tab[p].led[t]
      i == Newest(tab[p].snaps, tab[p].head, t)
      agrees == i > 0 /\ tab[p].snaps[i].id = L.last
  IN  CASE ~L.is -> "absent"
        [] ~On("rollback witness") -> "agreed"
        [] ~On("second witness") -> IF agrees THEN "agreed" ELSE "absent"
        [] agrees -> "agreed"
        [] i >= 0 -> "rolled back"
        [] ~On("third witness") -> "agreed"
        [] \E f \in Live(p, t) : f.id = L.last -> "agreed"
        [] OTHER -> "uncertain"
Ledger(p, t) == IF Witness(p, t) = "absent" THEN NoLedger ELSE tab[p].led[t]
(* A request: what to put on which base.  `keep` leaves the ledger as it is (fence, rolled back). *)
Request(p, r, L) == [p |-> p, base |-> tab[p].head, uuid |-> tab[p].uuid, row |-> r, led |-> L]
Put(T, m, keep) ==
  LET r == m.row
      before == IF T.head = 0 THEN <<>> ELSE T.snaps[T.head].files
      files == IF keep THEN before
               ELSE Append(before, [t |-> r.t, id |-> r.id, att |-> r.att, rows |-> r.rows])
      snap == [par |-> T.head, of |-> r.t, id |-> r.id, told |-> TRUE, files |-> files]
  IN  [T EXCEPT !.snaps = Append(@, snap), !.head = Len(T.snaps) + 1,
                !.led = IF keep THEN @ ELSE [@ EXCEPT ![r.t] = m.led]]
Covered(r) == {k \in Keys : r.from[k] < r.to[k]}
Landed(L, r, gen, own) ==   \* the ledger after a commit; an empty range must not move it
  [is |-> TRUE, gen |-> gen, own |-> own, last |-> r.id,
   recent |-> L.recent \union {<<r.id, r.att>>},
   offs |-> [k \in Keys |->
     IF k \in Covered(r) THEN r.to[k]
     ELSE IF ~On("empty ranges") /\ r.to[k] > L.offs[k] THEN r.to[k]
     ELSE IF L.offs[k] = -1 THEN r.orig[k] ELSE L.offs[k]]]
Examined(L, r) == [L EXCEPT !.offs = [k \in Keys |-> IF @[k] = -1 THEN r.orig[k] ELSE @[k]]]
-----------------------------------------------------------------------------
(* core/decide.py: facts in, decision out; the order of the rules matters.                        *)

Outranks(L, gen, own) ==
  On("generation") /\ L.is /\ (L.gen > gen \/ (L.gen = gen /\ L.own # own))

Decide(r, L, gen, own) ==
  LET P == Covered(r)
      mine == {e \in L.recent : e[1] = r.id}
      at == \A k \in P : L.offs[k] = r.from[k]
  IN  CASE On("own id") /\ mine # {} -> IF <<r.id, r.att>> \in mine THEN "ours" ELSE "theirs"
        [] On("own id") /\ P # {} /\ (\A k \in P : L.offs[k] >= r.to[k]) -> "theirs"
        [] ~On("order of rules") /\ at -> "commit"
        [] Outranks(L, gen, own) -> "fenced"
        [] ~On("offsets") -> "commit"
        [] at -> "commit"
        [] \E k \in P : L.offs[k] < r.from[k] -> "gap"
        [] OTHER -> "superseded"
-----------------------------------------------------------------------------
(* Lives.  A track is "aside" until what is pending is settled and the table is opened.           *)
NoTrack == [st |-> "aside", exp |-> None, rexp |-> None, exam |-> None, skip |-> {},
            sch |-> 1, uuid |-> 1, line |-> <<>>]
NoLife  == [ph |-> "new", gen |-> 0, re |-> FALSE, strange |-> FALSE, ep |-> 0,
            trk |-> [t \in Tables |-> NoTrack]]
NoExam  == [basis |-> None, rejects |-> None, reached |-> None]
NoStore == [gen |-> 0, own |-> 0, rows |-> <<>>, exam |-> [t \in Tables |-> NoExam]]

Init ==
  /\ log = [end |-> [s \in Sources |-> Early], low |-> [s \in Sources |-> 0], live |-> First]
  /\ tab = [p \in Phys |-> NewTable] /\ net = {} /\ away = {}
  /\ store = [h \in Hosts |-> NoStore] /\ life = [c \in Lives |-> NoLife]
  /\ ghost = [base |-> [t \in Tables |-> None], given |-> {}, rolled |-> {}, window |-> {},
              told |-> {}, aborted |-> {}, gone |-> {}, bad |-> {}, struck |-> 0]
Runs(c)  == life[c].ph = "run"
Trk(c, t) == life[c].trk[t]
Holds(c) == store[Host(c)].own = c /\ store[Host(c)].gen = life[c].gen
Exit(c)  == life' = [life EXCEPT ![c] = [NoLife EXCEPT !.ph = "out"]]
Aside(c, t, st) == life' = [life EXCEPT ![c].trk[t] = [NoTrack EXCEPT !.st = st]]
Rest == UNCHANGED <<tab, net, store, ghost>>
Bad(names) == ghost' = [ghost EXCEPT !.bad = @ \union names]
(* Requests that can never land any more are forgotten.                                           *)
Rollbacks == "rollback" \in Faults /\ ghost.struck < MaxFaults
Open4(m, T) == Rollbacks \/ ~On("compare and set") \/ ~On("check inside the loop")
               \/ (T[m.p].head = m.base /\ T[m.p].uuid = m.uuid)
Tables_(T) == tab' = T /\ net' = {m \in net : Open4(m, T)}
(* Claim a generation above all that store and ledgers have seen.  A ledger that knows of a claim *)
(* which our store does not know makes the claim strange: another store was lost, or is elsewhere,*)
(* and somebody may hold commits that we cannot see.                                              *)
Start(c) ==
  /\ life[c].ph = "new" /\ \A d \in Lives : d < c => life[d].ph # "new"
  /\ LET h == Host(c)
         seen == {tab[p].led[t] : p \in Phys \ away, t \in Tables}
         gen == Max({L.gen : L \in seen} \union {store[h].gen}) + 1
         strange == On("distrust") /\ \E L \in seen : Outranks(L, store[h].gen, store[h].own)
     IN  /\ store' = [store EXCEPT ![h].gen = gen, ![h].own = c] /\ UNCHANGED <<tab, net, ghost>>
         /\ life' = [life EXCEPT ![c].ph = "run", ![c].gen = gen, ![c].strange = strange]
(* A newer owner landed.  Claim again once, if our own store still says that it is us.            *)
Fenced(c, t, by) ==
  IF Holds(c) /\ ~life[c].re
  THEN LET gen == Max({by.gen, life[c].gen}) + 1
       IN  /\ store' = [store EXCEPT ![Host(c)].gen = gen]
           /\ life' = [life EXCEPT ![c].gen = gen, ![c].re = TRUE, ![c].strange = On("distrust"),
                         ![c].trk = [u \in Tables |-> NoTrack]]
           /\ UNCHANGED <<tab, net, ghost>>
  ELSE Exit(c) /\ Rest
(* A fence moves the head, so that no request in flight can land; it moves no progress.           *)
FenceOf(c, p, t) ==
  LET id == Nonce(c, 100 + Len(tab[p].snaps))
      r == [t |-> t, q |-> p = Q, from |-> Zero, to |-> Zero, rows |-> {}, orig |-> None,
            sch |-> tab[p].sch, uuid |-> tab[p].uuid, id |-> id, att |-> id]
      keep == Witness(p, t) = "rolled back"
  IN  [tab EXCEPT ![p] = Put(@, Request(p, r, Landed(Ledger(p, t), r, life[c].gen, c)), keep)]
RolledBack(c, p, t) ==   \* fence at once, then stop: what to do is a human's choice
  IF Outranks(tab[p].led[t], life[c].gen, c) THEN Fenced(c, t, tab[p].led[t])
  ELSE /\ Tables_(IF On("rollback fence") THEN FenceOf(c, p, t) ELSE tab)
       /\ ghost' = [ghost EXCEPT !.told = @ \union {p}, !.window = @ \ {p}]
       /\ Aside(c, t, "stop") /\ UNCHANGED store
Pending(c, t) == SelectSeq(store[Host(c)].rows, LAMBDA r : r.t = t)
(* Find where a table stands; it goes on from there.  What is in quarantine for the stretch that  *)
(* is read again is left out.  What the store says was examined counts only on its own basis.     *)
Open(c, t) ==
  /\ Runs(c) /\ Trk(c, t).st = "aside" /\ {t, Q} \intersect away = {} /\ Pending(c, t) = <<>>
  /\ LET bad == {p \in {t, Q} : Witness(p, t) = "rolled back"}
         own == Ledger(t, t).offs
         rej == Ledger(Q, t).offs
         known == store[Host(c)].exam[t]
         good == IF On("examined basis") THEN known.basis = own /\ known.rejects = rej
                                         ELSE known # NoExam
         exam == IF good THEN [k \in Keys |-> Max({own[k], known.reached[k]})] ELSE own
         track == [NoTrack EXCEPT !.st = "in", !.exp = own, !.rexp = rej, !.exam = exam,
                     !.skip = IF On("quarantine look-up") THEN Rows(Q, t) ELSE {},
                     !.sch = tab[t].sch, !.uuid = tab[t].uuid]
         newer == {p \in {t, Q} : Outranks(Ledger(p, t), life[c].gen, c)}
         both == [tab EXCEPT ![t] = FenceOf(c, t, t)[t], ![Q] = FenceOf(c, Q, t)[Q]]
     IN  IF bad # {} THEN RolledBack(c, CHOOSE p \in bad : TRUE, t)
         ELSE IF \E p \in {t, Q} : Witness(p, t) = "uncertain"
         THEN Aside(c, t, "stop") /\ Rest
         ELSE IF newer # {} THEN Fenced(c, t, Ledger(CHOOSE p \in newer : TRUE, t))
         ELSE /\ life' = [life EXCEPT ![c].trk[t] = track] /\ UNCHANGED <<store, ghost>>
              /\ Tables_(IF life[c].strange THEN both ELSE tab)
(* Write start positions into the ledger before anything behind them is read.                     *)
Begin(c, t) ==
  /\ Runs(c) /\ Trk(c, t).st = "in" /\ Trk(c, t).line = <<>> /\ t \notin away
  /\ tab[t].uuid = Trk(c, t).uuid
  /\ LET new == {s \in log.live : Trk(c, t).exp[Key(s)] = -1}
         at(k) == LET s == CHOOSE s \in new : Key(s) = k
                  IN  IF Latest /\ s \in First THEN log.end[s] ELSE log.low[s]
         orig == [k \in Keys |-> IF \E s \in new : Key(s) = k THEN at(k) ELSE -1]
         id == Nonce(c, 100 + Len(tab[t].snaps))
         r == [t |-> t, q |-> FALSE, from |-> Zero, to |-> Zero, rows |-> {}, orig |-> orig,
               sch |-> tab[t].sch, uuid |-> tab[t].uuid, id |-> id, att |-> id]
         L == Landed(Ledger(t, t), r, life[c].gen, c)
         now == IF On("start position") THEN L.offs ELSE orig
         took == [k \in Keys |-> IF orig[k] = -1 THEN Trk(c, t).exp[k] ELSE now[k]]
         exam == [k \in Keys |-> IF orig[k] = -1 THEN Trk(c, t).exam[k] ELSE now[k]]
     IN  /\ new # {}
         /\ IF Witness(t, t) \in {"rolled back", "uncertain"}
            THEN Aside(c, t, "aside") /\ Rest
            ELSE IF Outranks(Ledger(t, t), life[c].gen, c) THEN Fenced(c, t, Ledger(t, t))
            ELSE /\ Tables_(IF ~On("start position") THEN tab
                            ELSE [tab EXCEPT ![t] = Put(@, Request(t, r, L), FALSE)])
                 /\ life' = [life EXCEPT ![c].trk[t].exp = took, ![c].trk[t].exam = exam]
                 /\ ghost' = [ghost EXCEPT !.base[t] =
                      [k \in Keys |-> IF @[k] = -1 /\ orig[k] # -1 THEN now[k] ELSE @[k]]]
                 /\ UNCHANGED store
-----------------------------------------------------------------------------
(* An epoch: read to common ends, and put the commits of all tables into the store in one act.    *)
Active(c) == {t \in Tables : Trk(c, t).st = "in"}
Readable(c, t, s) == Trk(c, t).exam[Key(s)] # -1
                     /\ (Trk(c, t).exam[Key(s)] >= log.low[s] \/ ~On("retention check"))
Behind(c, t, s) == Readable(c, t, s) /\ Trk(c, t).exam[Key(s)] < log.end[s]
CanEpoch(c) ==
  /\ Runs(c) /\ life[c].ep < MaxEpochs
  /\ \A t \in Active(c) : Len(Trk(c, t).line) < MaxWaiting
  /\ \E t \in Active(c), s \in log.live : Behind(c, t, s)

RowOf(c, t, q, from, to, rows, orig) ==
  LET moved == [k \in Keys |-> IF from[k] < to[k] \/ ~On("empty ranges") THEN from[k] ELSE 0]
      stop == [k \in Keys |-> IF from[k] < to[k] THEN to[k] ELSE moved[k]]
      att == 100 * c + life[c].ep + 1
      id == IF \E k \in Keys : from[k] < to[k] THEN IdOf(moved, stop)
            ELSE Nonce(c, life[c].ep + 1)
  IN  [t |-> t, q |-> q, from |-> moved, to |-> stop, rows |-> rows, orig |-> orig,
       sch |-> Trk(c, t).sch, uuid |-> Trk(c, t).uuid, id |-> id, att |-> att, gen |-> life[c].gen]
(* What one table gets of an epoch that reads to `ends`: its quarantine commit first.             *)
Prepared(c, t, ends) ==
  LET T == Trk(c, t)
      to == [k \in Keys |-> Max({T.exam[k]} \union
               {ends[s] : s \in {s \in log.live : Key(s) = k /\ Readable(c, t, s)}})]
      read == {<<s, o>> \in log.live \X (0 .. N - 1) :
                 Readable(c, t, s) /\ T.exam[Key(s)] <= o /\ o < to[Key(s)] /\ log.low[s] <= o}
              \ T.skip
      rows == {x \in read : Verdict(t, x[2], T.sch) = "row"}
      bad  == {x \in read : Verdict(t, x[2], T.sch) = "bad"}
      from == [k \in Keys |-> IF T.rexp[k] = -1 THEN T.exp[k] ELSE T.rexp[k]]
      orig == [k \in Keys |-> IF T.rexp[k] = -1 THEN T.exp[k] ELSE -1]
      start == IF On("start position") THEN None ELSE T.exp
      q == IF bad = {} THEN <<>> ELSE <<RowOf(c, t, TRUE, from, to, bad, orig)>>
      own == IF rows = {} THEN <<>> ELSE <<RowOf(c, t, FALSE, T.exp, to, rows, start)>>
  IN  [rows |-> IF On("quarantine first") THEN q \o own ELSE own \o q,
       track |-> [T EXCEPT !.exam = to,
                   !.exp = IF own = <<>> THEN @ ELSE to,
                   !.rexp = IF q = <<>> THEN @ ELSE [k \in Keys |-> Max({from[k], to[k]})],
                   !.line = @ \o (IF On("quarantine first") THEN q \o own ELSE own \o q)]]
Concat(c, f) ==   \* the rows of all tables, in a fixed order
  LET RECURSIVE go(_)
      go(S) == IF S = {} THEN <<>> ELSE LET t == CHOOSE t \in S : TRUE IN f[t].rows \o go(S \ {t})
  IN  go(Active(c))

Epoch(c) ==
  /\ CanEpoch(c)
  /\ \E ends \in [log.live -> 0 .. N] :
       /\ \A s \in log.live : ends[s] <= log.end[s]
            /\ (ends[s] = 0 \/ \E t \in Active(c) :
                                  Behind(c, t, s) /\ Trk(c, t).exam[Key(s)] < ends[s])
       /\ \E s \in log.live : ends[s] > 0
       /\ LET made == [t \in Active(c) |-> Prepared(c, t, ends)]
              trk == [t \in Tables |-> IF t \in Active(c) THEN made[t].track ELSE Trk(c, t)]
              exam == [t \in Tables |-> IF t \notin Active(c) THEN store[Host(c)].exam[t]
                         ELSE [basis |-> trk[t].exp, rejects |-> trk[t].rexp,
                               reached |-> trk[t].exam]]
          IN  IF Holds(c)
              THEN /\ life' = [life EXCEPT ![c].ep = @ + 1, ![c].trk = trk]
                   /\ store' = [store EXCEPT ![Host(c)].rows = @ \o Concat(c, made),
                                             ![Host(c)].exam = exam]
              ELSE Exit(c) /\ UNCHANGED store
  /\ UNCHANGED <<tab, net, ghost>>
(* A quiet table's ledger is brought level: progress, no files.                                   *)
Anchor(c, t) ==
  /\ Runs(c) /\ Trk(c, t).st = "in" /\ Trk(c, t).line = <<>>
  /\ Trk(c, t).exam # Trk(c, t).exp /\ life[c].ep < MaxEpochs
  /\ LET r == RowOf(c, t, FALSE, Trk(c, t).exp, Trk(c, t).exam, {}, None)
     IN  IF Holds(c)
         THEN /\ life' = [life EXCEPT ![c].ep = @ + 1, ![c].trk[t].exp = Trk(c, t).exam,
                                      ![c].trk[t].line = <<r>>]
              /\ store' = [store EXCEPT ![Host(c)].rows = Append(@, r)]
         ELSE Exit(c) /\ UNCHANGED store
  /\ UNCHANGED <<tab, net, ghost>>
(* Retention took records that were not read: a human consents, and they are booked.              *)
Consent(c, t, s) ==
  /\ Runs(c) /\ Trk(c, t).st = "in" /\ s \in log.live /\ On("retention check")
  /\ Trk(c, t).exam[Key(s)] # -1 /\ Trk(c, t).exam[Key(s)] < log.low[s]
  /\ life' = [life EXCEPT ![c].trk[t].exam[Key(s)] = log.low[s]]
  /\ ghost' = [ghost EXCEPT !.given = @ \union
                 {<<t, s, o>> : o \in Trk(c, t).exam[Key(s)] .. log.low[s] - 1}]
  /\ UNCHANGED <<tab, net, store>>
-----------------------------------------------------------------------------
(* One turn of the loop that lands a commit: examine, decide, act.  While a table is aside its    *)
(* rows in the store are judged, oldest first; else those in memory.                              *)
IsLive(r)  == \E f \in Live(IF r.q THEN Q ELSE r.t, r.t) : f.att = r.att /\ f.id = r.id
Settle(c, t, r, ok) ==   \* PENDING -> COMMITTED or ABORTED, guarded by the claim
  LET h == Host(c)
      p == IF r.q THEN Q ELSE t
      left == SelectSeq(store[h].rows, LAMBDA x : x.t # t \/ x.q # r.q \/ x.att # r.att)
      bad == IF (ok /\ ~IsLive(r) /\ p \notin ghost.rolled) \/ (~ok /\ IsLive(r))
             THEN {"I10"} ELSE {}
  IN  IF ~Holds(c) THEN Exit(c) /\ UNCHANGED <<store, ghost>>
      ELSE /\ store' = [store EXCEPT ![h].rows = left,   \* what was dropped is not examined
                          ![h].exam[t] = IF ok \/ ~On("examined forgotten") THEN @ ELSE NoExam]
           /\ ghost' = [ghost EXCEPT !.bad = @ \union bad,
                          !.aborted = IF ok THEN @ ELSE @ \union {<<t, r.q, r.att>>}]
           /\ IF Trk(c, t).st = "in" /\ ok
              THEN life' = [life EXCEPT ![c].trk[t].line = Tail(@)]
              ELSE Aside(c, t, "aside")
Drop(c, t, r) ==   \* a quarantine commit waits for recovery, which drops its followers first
  IF Trk(c, t).st = "in" /\ r.q THEN Aside(c, t, "aside") /\ UNCHANGED <<store, ghost>>
  ELSE Settle(c, t, r, FALSE)

CanTurn(c, t) ==
  /\ Runs(c) /\ Trk(c, t).st \in {"in", "aside"}
  /\ (IF Trk(c, t).st = "in" THEN Trk(c, t).line ELSE Pending(c, t)) # <<>>
Judge(c, t, r) == Decide(r, Examined(Ledger(IF r.q THEN Q ELSE t, t), r), life[c].gen, c)
Gone(c, t, r) == On("file check") /\ Trk(c, t).st = "aside" /\ <<t, r.q, r.att>> \in ghost.gone
(* A strange claim lands nothing that it finds pending: others may have read that stretch since,  *)
(* and have judged it otherwise.                                                                  *)
Stale(c, t, r) == life[c].strange /\ Trk(c, t).st = "aside" /\ r.gen # life[c].gen
Fails(c, t, r) == Judge(c, t, r) \in {"theirs", "gap", "superseded"}
                  \/ (Judge(c, t, r) = "commit" /\ (Gone(c, t, r) \/ Stale(c, t, r)))
(* What follows a quarantine commit that cannot land would bury its records: it goes first.       *)
Next4(c, t, r) ==
  LET after == SelectSeq(Pending(c, t), LAMBDA x : ~x.q)
  IN  IF On("followers") /\ Trk(c, t).st = "aside" /\ r.q /\ Fails(c, t, r) /\ after # <<>>
      THEN Head(after) ELSE r

Turn(c, t) ==
  /\ CanTurn(c, t)
  /\ LET first == Head(IF Trk(c, t).st = "in" THEN Trk(c, t).line ELSE Pending(c, t))
         r == Next4(c, t, first)
         p == IF r.q THEN Q ELSE t
         keep_out == r # first \/ Gone(c, t, r) \/ Stale(c, t, r)
                     \/ (r.rows # {} /\ ~r.q /\ tab[p].sch # r.sch)
         d == Judge(c, t, r)
         gen == life[c].gen
         m == Request(p, r, Landed(Ledger(p, t), r, gen, c))
         lost == {o \in 0 .. N - 1 : \E s \in Sources : Kind(t, o) = "row" /\ ~r.q
                    /\ ghost.base[t][Key(s)] # -1 /\ ghost.base[t][Key(s)] <= o
                    /\ o < tab[t].led[t].offs[Key(s)] /\ Key(s) = s
                    /\ <<s, o>> \notin Rows(t, t) /\ <<t, s, o>> \notin ghost.given}
         harm == (IF lost # {} THEN {"I2"} ELSE {})
                 \union (IF Trk(c, t).st = "aside" /\ <<t, r.q, r.att>> \in ghost.gone
                         THEN {"I6"} ELSE {})
     IN  IF p \in away THEN On("parking") /\ Trk(c, t).st = "in" /\ Aside(c, t, "aside") /\ Rest
         ELSE IF (~r.q /\ tab[p].uuid # r.uuid) \/ Witness(p, t) = "uncertain"
         THEN Aside(c, t, "stop") /\ Rest
         ELSE IF Witness(p, t) = "rolled back" THEN RolledBack(c, p, t)
         ELSE CASE d = "fenced" -> Fenced(c, t, Ledger(p, t))
                [] d = "ours" -> Settle(c, t, r, TRUE) /\ UNCHANGED <<tab, net>>
                [] d = "commit" /\ keep_out ->
                     Drop(c, t, r) /\ Tables_(IF On("abort fence") THEN FenceOf(c, p, t) ELSE tab)
                [] d = "commit" /\ ~keep_out ->
                     /\ m \notin net /\ net' = net \union {m}
                     /\ Bad(harm) /\ UNCHANGED <<tab, store, life>>
                [] d \in {"theirs", "gap", "superseded"} -> Drop(c, t, r) /\ UNCHANGED <<tab, net>>
-----------------------------------------------------------------------------
(* The catalog: a request lands on exactly the state that was examined, or not at all.            *)
Rebased(m) == [m EXCEPT !.led = Landed(tab[m.p].led[m.row.t], m.row, m.led.gen, m.led.own)]
Arrive(m) ==
  LET T == tab[m.p]
      r == m.row
      fits == T.head = m.base /\ T.uuid = m.uuid /\ (T.sch = r.sch \/ r.q \/ ~On("schema"))
      n == IF ~On("check inside the loop") /\ T.head # m.base THEN Rebased(m) ELSE m
      lands == fits \/ ~On("compare and set") \/ ~On("check inside the loop")
      calm == m.p \notin ghost.window
      L == T.led[r.t]
      bad == (IF calm /\ (m.p \in ghost.told \/ \E k \in Keys : n.led.offs[k] < L.offs[k])
              THEN {"I3"} ELSE {})
             \union (IF calm /\ (m.led.gen < L.gen \/ (m.led.gen = L.gen /\ m.led.own # L.own))
                     THEN {"I4"} ELSE {})
             \union (IF calm /\ <<r.t, r.q, r.att>> \in ghost.aborted THEN {"I6"} ELSE {})
             \union (IF r.rows # {} /\ ~r.q /\ T.sch # r.sch THEN {"I2"} ELSE {})
  IN  IF lands
      THEN /\ Tables_([tab EXCEPT ![m.p] = Put(T, n, FALSE)])
           /\ ghost' = [ghost EXCEPT !.bad = @ \union bad, !.window = @ \ {m.p}]
      ELSE ~Rollbacks /\ net' = net \ {m} /\ UNCHANGED <<tab, ghost>>
-----------------------------------------------------------------------------
(* What strangers, networks and operators do.                                                     *)
Strike(name) == name \in Faults /\ ghost.struck < MaxFaults
Struck(g) == ghost' = [g EXCEPT !.struck = @ + 1]
Produce == \E s \in log.live :
  log.end[s] < N /\ log' = [log EXCEPT !.end[s] = @ + 1] /\ UNCHANGED ghost
Foreign == \E p \in Phys : \* an append, a compaction: a snapshot without our summary
  /\ Strike("foreign") /\ tab[p].head # 0
  /\ LET T == tab[p]
         snap == [par |-> T.head, of |-> "", id |-> NoId, told |-> TRUE, files |-> Files(p)]
     IN  Tables_([tab EXCEPT ![p].snaps = Append(@, snap), ![p].head = Len(T.snaps) + 1])
  /\ Struck(ghost)
Expire == \E p \in Phys :   \* all history but the head and what is tagged
  LET T == tab[p]
      tagged == {Max({0} \union {i \in DOMAIN T.snaps : T.snaps[i].told /\ T.snaps[i].of = t
                                   /\ T.snaps[i].id = T.led[t].last}) : t \in Tables}
      kept == tagged \union {T.head}
      snaps == [i \in DOMAIN T.snaps |-> IF i \in kept THEN T.snaps[i] ELSE Expired]
  IN  /\ Strike("expire") /\ snaps # T.snaps
      /\ Tables_([tab EXCEPT ![p].snaps = snaps])
      /\ Struck(ghost)
Rollback == \E p \in Phys : \E i \in 1 .. tab[p].head - 1 :
  /\ Strike("rollback") /\ tab[p].snaps[i].told /\ Tables_([tab EXCEPT ![p].head = i])
  /\ Struck([ghost EXCEPT !.rolled = @ \union {p}, !.window = @ \union {p}, !.told = @ \ {p}])
Recreate == \E t \in Tables :
  /\ Strike("recreate") /\ tab[t].head # 0
  /\ Tables_([tab EXCEPT ![t] = [NewTable EXCEPT !.uuid = tab[t].uuid + 1]])
  /\ Struck([ghost EXCEPT !.base[t] = None, !.rolled = @ \ {t}, !.told = @ \ {t},
                          !.window = @ \ {t}])
Alter == \E t \in Tables :  \* back to the former schema: Iceberg gives it its former id
  /\ Strike("alter") /\ Tables_([tab EXCEPT ![t].sch = 3 - @])
  /\ Struck(ghost)
Leave == \E p \in Phys :
  \/ /\ Strike("away") /\ p \notin away /\ away' = away \union {p}
     /\ Struck(ghost) /\ UNCHANGED <<log, tab, net, store, life>>
  \/ /\ p \in away /\ away' = away \ {p} /\ UNCHANGED <<log, tab, net, store, life, ghost>>
Lose == \E h \in Hosts :
  /\ Strike("lose") /\ store[h] # NoStore /\ store' = [store EXCEPT ![h] = NoStore]
  /\ Struck(ghost) /\ UNCHANGED <<log, tab, net, life, away>>
Orphans == \E h \in Hosts : \E r \in Range(store[h].rows) :  \* of a life that is over, not live
  /\ Strike("orphans") /\ r.rows # {} /\ store[h].own # r.att \div 100 /\ ~IsLive(r)
  /\ <<r.t, r.q, r.att>> \notin ghost.gone
  /\ Struck([ghost EXCEPT !.gone = @ \union {<<r.t, r.q, r.att>>}])
  /\ UNCHANGED <<log, tab, net, store, life, away>>
Retention == \E s \in log.live :
  /\ Strike("retention") /\ log.low[s] < log.end[s] /\ log' = [log EXCEPT !.low[s] = @ + 1]
  /\ Struck(ghost)
Retopic == \E s \in log.live :  \* deleted and created again: another id, with a consent
  /\ Strike("retopic") /\ s + 1 \in Sources \ log.live
  /\ log' = [log EXCEPT !.live = (@ \ {s}) \union {s + 1}]
  /\ Struck(ghost)
Life(c) == \/ Start(c) \/ Epoch(c)
           \/ \E t \in Tables : Open(c, t) \/ Begin(c, t) \/ Anchor(c, t) \/ Turn(c, t)
           \/ \E t \in Tables, s \in Sources : Consent(c, t, s)
Catalog  == (\E m \in net : Arrive(m)) \/ Foreign \/ Expire \/ Rollback \/ Recreate \/ Alter
Next == \/ (\E c \in Lives : Life(c)) /\ UNCHANGED <<log, away>>
        \/ Catalog /\ UNCHANGED <<log, store, life, away>>
        \/ (Produce \/ Retention \/ Retopic) /\ UNCHANGED <<tab, net, store, life, away>>
        \/ Leave \/ Lose \/ Orphans
Spec == Init /\ [][Next]_vars
-----------------------------------------------------------------------------
(* The invariants, by the names of the design.  A table that strangers rolled back is left out    *)
(* where its ledger is rightly ahead of it: that it is noticed and left alone is I2 and I3 too.   *)
Steady(t) == {t, Q} \intersect ghost.rolled = {}
Chains == {<<t, t>> : t \in Tables} \union {<<Q, t>> : t \in Tables}
Pairs(c) == LET F == Files(c[1])   \* live commits of one chain, two by two
            IN  {<<F[ij[1]], F[ij[2]]>> : ij \in {ij \in (DOMAIN F) \X (DOMAIN F) :
                    ij[1] < ij[2] /\ F[ij[1]].t = c[2] /\ F[ij[2]].t = c[2]}}
I1_NoDup == \A c \in Chains : \A x \in Pairs(c) : x[1].rows \intersect x[2].rows = {}
I2_NoLoss == /\ "I2" \notin ghost.bad
             /\ \A t \in Tables, s \in Sources :
                  Steady(t) /\ tab[t].led[t].is /\ ghost.base[t][Key(s)] # -1
                  /\ (Key(s) = s \/ s \in log.live)
                  => \A o \in ghost.base[t][Key(s)] .. tab[t].led[t].offs[Key(s)] - 1 :
                       \/ Kind(t, o) = "none" \/ <<t, s, o>> \in ghost.given
                       \/ <<s, o>> \in Rows(t, t) \union Rows(Q, t)
I3_Monotone == /\ "I3" \notin ghost.bad
               /\ \A t \in Tables : Steady(t) =>
                    \A x \in Rows(t, t) : x[2] < tab[t].led[t].offs[Key(x[1])]
I4_Fenced == "I4" \notin ghost.bad
I5_OneIdentity == \A c \in Chains : \A x \in Pairs(c) : x[1].id # x[2].id
I6_FilesLive == "I6" \notin ghost.bad
(* A table that does not answer holds up no other: a step is there that brings those on.          *)
I9_FanOut == \A c \in Lives, t \in Tables :
  LET stuck == {u \in Tables : u \in away /\ Trk(c, u).st = "in" /\ Trk(c, u).line # <<>>}
  IN  Runs(c) /\ life[c].ep < MaxEpochs /\ Trk(c, t).st = "in" /\ Trk(c, t).line = <<>>
      /\ (\E s \in log.live : Behind(c, t, s))
      => CanEpoch(c) \/ (On("parking") /\ stuck # {})
         \/ \E u \in Tables \ stuck : CanTurn(c, u)
I10_TwoPhases == "I10" \notin ghost.bad
I11_Quarantine == \A t \in Tables : Steady(t) => Rows(t, t) \intersect Rows(Q, t) = {}
=============================================================================
