------------------------------ MODULE Publish -------------------------------
(* How a publication writes rows of a source into Kafka once (0274): fence, look, send, end.  Its *)
(* ledger, positions and rows are in one transaction of one id.  Two lanes, a worker each, write a*)
(* target partition each under the term of their run.  Runs may die, or sleep, at any moment: then*)
(* they take no step, for a while or for ever.  Attempts of workers send late, or never; an end   *)
(* that was asked for arrives late, never, or again.  Defences named in Off are off.              *)
EXTENDS Integers, Sequences, FiniteSets
CONSTANTS
  Many,        \* the rows of lane 1; lane 2 has one
  Runs, MaxEpoch,   \* runs 1 .. n, each of a higher generation; epochs of a producer id
  Latest,      \* a first start begins at the end of the source, which grows
  Faults, MaxFaults, Off
VARIABLES
  co,     \* the coordinator: [t, st, prev, was, mk]: its term, state, the term that may renew, the
          \* term that was ended, whether markers of that are still to be written
  lead,   \* partition -> what its leader knows of us: [t, n, open]: newest term, next sequence
  led,    \* the offsets topic: [t, c, gen, ep, from, pos, moved, rows, gap, ids, ends]
  hid,    \* what of the ledger lies behind a stranger's open transaction; keys that were lost
  tgt,    \* target partition -> batches [t, c, row]    ids: and the id of its topic
  ids,
  ends,   \* requests to end a term that may still arrive
  att,    \* attempts of workers: [r, t, w, a, base, n, rows, to]
  run,    \* [ph, t, rem, see, pos, ep]
  src,    \* [has, low]: rows that a lane has by now, and those it was told to forget
  ghost,  \* [pos, gen, struck, hurt, gone]: where the lanes truly stand, who began last
  broken
vars == <<co, lead, led, hid, tgt, ids, ends, att, run, src, ghost, broken>>
Past == {"cut", "stranger"} \intersect Faults # {} \/ Off # {}
On(d) == d \notin Off     Strike(name) == name \in Faults /\ ghost.struck < MaxFaults
Rows == <<Many, 1>>     Lanes == 1 .. 2     Last(s) == s[Len(s)]
Range(s) == {s[i] : i \in DOMAIN s}
Pid(t) == t \div 100     Epoch(t) == t % 100     None == [w \in Lanes |-> -1]
Into(w) == IF On("partition to two senders") THEN w ELSE 1
(* The coordinator, protocol 2: an end gives the next term, and that of a transaction alone.      *)
Next1(t) == IF On("no new term") THEN t + 1 ELSE t
Open == co.st = "open"
Over(t, c, l) == t # c.t /\ \A p \in DOMAIN l : ~(l[p].open /\ l[p].t = t)   \* nothing is let in
Idle == [t |-> 0, n |-> 0, open |-> FALSE]
CoTo(c, l) ==   \* requests and attempts that can never do anything are forgotten
  /\ co' = c /\ lead' = [p \in DOMAIN l |-> IF l[p].open \/ l[p].t = c.t THEN l[p] ELSE Idle]
  /\ ends' = {t \in ends : t = c.t}
  /\ att' = {a \in att : ~Over(a.t, c, l)}
Aborted(t, prev) == [co EXCEPT !.t = t, !.st = "abort", !.prev = prev, !.was = co.t, !.mk = TRUE]
Given(t, prev) == [t |-> t, st |-> "empty", prev |-> prev, was |-> t, mk |-> FALSE]
First == 100 * (Pid(co.was) + 1) + 1   \* of the next producer id; `was` outlives a forgotten id
(* A leader takes a batch with the next sequence: into what is open there, even after an end was  *)
(* answered, until the marker is written; else the coordinator is asked.  A sequence that it has  *)
(* is not looked at again, whatever its bytes.                                                    *)
Answer(t, p, seq) ==
  LET l == lead[p] IN
  CASE t < l.t -> "no"
    [] t = l.t /\ seq < l.n -> "had"
    [] seq # (IF t = l.t THEN l.n ELSE 0) -> "no"
    [] t = l.t /\ l.open -> "taken"
    [] t = co.t /\ ~co.mk /\ co.st # "none" -> "taken"
    [] OTHER -> "no"
Taken(t, p) ==
  /\ lead' = [lead EXCEPT ![p] = [t |-> t, n |-> IF t = @.t THEN @.n + 1 ELSE 1, open |-> TRUE]]
  /\ co' = IF t = co.t /\ ~co.mk THEN [co EXCEPT !.st = "open"] ELSE co
(* What the ledger says: the newest that has a marker.                                            *)
Seen == IF On("look below the high watermark") \/ hid.at < 0 \/ hid.at > Len(led) THEN led
        ELSE SubSeq(led, 1, hid.at)
NoView == [has |-> FALSE, t |-> 0, gen |-> 0, ep |-> 0, pos |-> None, sum |-> None,
           ends |-> None, ids |-> None, hangs |-> FALSE]
RECURSIVE Newest(_, _, _)
Newest(L, i, w) == IF i = 0 THEN -1   \* as a topic is compacted
                   ELSE IF w \in L[i].moved THEN L[i].pos[w] ELSE Newest(L, i - 1, w)
View ==
  LET L == SelectSeq(Seen, LAMBDA e : e.c)     hangs == \E e \in Range(Seen) : ~e.c
  IN  IF L = <<>> THEN [NoView EXCEPT !.hangs = hangs]
      ELSE LET e == Last(L) IN
           [has |-> 0 \notin hid.lost, t |-> e.t, gen |-> e.gen, ep |-> e.ep,
            pos |-> [w \in Lanes |-> IF w \in hid.lost THEN -1 ELSE Newest(L, Len(L), w)],
            sum |-> e.pos, ends |-> e.ends, ids |-> e.ids, hangs |-> hangs]
Sound(v) == v.pos = v.sum \/ ~On("positions not counted")
OursBehind(pids, from) ==   \* committed batches of these producers behind the receipts
  \E p \in Lanes : \E i \in DOMAIN tgt[p] :
     i > from[p] /\ tgt[p][i].c /\ Pid(tgt[p][i].t) \in pids
Shrunk(v) == \E p \in Lanes : v.ends[p] > 0 /\ (v.ids[p] # ids[p] \/ Len(tgt[p]) < v.ends[p])
(* core/resuming: may a run go on from what it found?                                             *)
Decide(r, v, t) ==
  LET rem == run[r].rem
      direct == rem.t = Next1(v.t) /\ (t = rem.t + 1 \/ ~On("between notice and fence"))
      pids == {Pid(v.t), Pid(rem.t), Pid(IF On("between notice and fence") THEN t ELSE 0)} \ {0}
  IN  CASE v.gen > r -> "fenced"
        [] ~v.has /\ (v.pos # None \/ v.gen > 0) -> "stop"
        [] ~v.has /\ (rem.st = "commit" \/
             (OursBehind(pids, [p \in Lanes |-> 0]) /\ On("tail without a ledger"))) -> "stop"
        [] ~v.has -> "begin"
        [] ~Sound(v) \/ (Shrunk(v) /\ On("ends of the targets")) -> "stop"
        [] direct -> "go on"
        [] OursBehind(pids, v.ends) /\ On("tail not looked at") -> "stop"
        [] OTHER -> "go on"
Zero == [w \in Lanes |-> 0]
NoRun == [ph |-> "new", t |-> 0, rem |-> [t |-> 0, st |-> "none"], see |-> NoView, pos |-> None,
          ep |-> 0]
Init ==
  /\ co = [t |-> 0, st |-> "none", prev |-> 0, was |-> 0, mk |-> FALSE]
  /\ lead = [p \in 0 .. 2 |-> Idle]
  /\ led = <<>> /\ hid = [at |-> -1, lost |-> {}] /\ tgt = [p \in Lanes |-> <<>>] /\ ids = Zero
  /\ ends = {} /\ att = {} /\ run = [r \in Runs |-> NoRun] /\ broken = {}
  /\ src = [has |-> IF Latest THEN Zero ELSE Rows, low |-> Zero]
  /\ ghost = [pos |-> None, gen |-> 0, struck |-> 0, hurt |-> FALSE, gone |-> FALSE]
Kafka == <<co, lead, ends, att>>     Topics == <<led, hid, tgt, ids>>
World == <<src, ghost, broken>>
Is(r, ph) == run[r].ph = ph
Go(r, ph) == run' = [run EXCEPT ![r].ph = ph]
Out(r) == run' = [run EXCEPT ![r] = [NoRun EXCEPT !.ph = "out"]]
Top(r) == IF View.gen > r THEN Out(r)   \* whose was it?  A look without a fence
          ELSE run' = [run EXCEPT ![r] = [NoRun EXCEPT !.ph = "top"]]
(* A start.                                                                                       *)
Note(r) ==
  /\ Is(r, "top") \/ (Is(r, "new") /\ \A s \in Runs : s < r => ~Is(s, "new"))
  /\ run' = [run EXCEPT ![r].ph = "noted", ![r].rem = [t |-> co.t, st |-> co.st],
                        ![r].see = IF On("look before fence") THEN NoView ELSE View]
  /\ UNCHANGED <<Kafka, Topics, World>>
Take(r) ==
  /\ Is(r, "noted") /\ ~co.mk /\ Epoch(co.t) < MaxEpoch /\ UNCHANGED <<Topics, World>>
  /\ IF Open THEN CoTo(Aborted(co.t + 1, 0), lead) /\ UNCHANGED run   \* and again
     ELSE \E t \in {IF co.st = "none" THEN First ELSE co.t + 1} :
            CoTo(Given(t, 0), lead) /\ run' = [run EXCEPT ![r].ph = "taken", ![r].t = t]
Start == IF Latest THEN src.has ELSE Zero
Resumed(r, v, pos) ==
  [run EXCEPT ![r].ph = IF On("no begin") THEN "begin" ELSE "live", ![r].pos = pos, ![r].ep = v.ep,
              ![r].see = [v EXCEPT !.ids = ids, !.pos = pos, !.sum = None], ![r].rem = NoRun.rem]
Look(r) ==
  /\ Is(r, "taken") /\ UNCHANGED <<Kafka, Topics, World>>
  /\ \E v \in {IF On("look before fence") THEN View ELSE run[r].see} :
       IF v.hangs THEN Top(r) ELSE   \* a rival's, who took the id since
       CASE Decide(r, v, run[r].t) = "begin" -> run' = Resumed(r, v, Start)
         [] Decide(r, v, run[r].t) = "go on" ->
              run' = Resumed(r, v, [w \in Lanes |-> IF v.pos[w] >= 0 THEN v.pos[w] ELSE
                               IF On("start not written") THEN 0 ELSE Start[w]])
         [] OTHER -> Out(r)
(* The ledger and the end.  `from` is where the run believed the lanes to stand.  Until an answer *)
(* comes, pos and ep of a run are those that it asked for, and see has what it knows.             *)
Entry(r, from, pos, moved, rows, ep) ==
  [t |-> run[r].t, c |-> ~On("ledger outside the transaction"), gen |-> r, ep |-> ep,
   from |-> from, pos |-> pos, moved |-> moved, rows |-> rows, ids |-> run[r].see.ids,
   gap |-> \E w \in moved : from[w] >= 0 /\ from[w] < src.low[w],
   ends |-> [p \in Lanes |-> IF rows[p] = <<>> THEN run[r].see.ends[p] ELSE Len(tgt[p])]]
Known(r, pos, ep, n) == [NoView EXCEPT !.pos = pos, !.ep = ep, !.ids = run[r].see.ids, !.ends = n]
Refused(r) == IF run[r].ep = run[r].see.ep THEN Top(r) ELSE Go(r, "doubt")
Ledger(r, e, pos) ==   \* written last, in one batch; then the end is asked for
  LET seq == IF lead[0].t = run[r].t THEN lead[0].n ELSE 0 IN
  IF Answer(run[r].t, 0, seq) # "taken"
  THEN /\ (IF e.ep = run[r].see.ep THEN Top(r) ELSE Go(r, "doubt")) /\ UNCHANGED <<Kafka, led>>
  ELSE /\ Taken(run[r].t, 0) /\ led' = Append(led, e) /\ ends' = ends \union {run[r].t}
       /\ run' = [run EXCEPT ![r].ph = "ending", ![r].pos = pos, ![r].ep = e.ep,
                             ![r].see.ends = e.ends]
       /\ UNCHANGED att
Begin(r) ==
  /\ Is(r, "begin") /\ UNCHANGED <<hid, tgt, ids, World>>
  /\ LET new == ~run[r].see.has /\ On("start not written")
         p == IF run[r].see.has \/ new THEN run[r].pos ELSE None
     IN  Ledger(r, Entry(r, p, p, IF new THEN Lanes ELSE {}, [w \in Lanes |-> <<>>], run[r].ep),
                run[r].pos)
Max2(x, y) == IF x < y THEN y ELSE x
Told(s, pos) ==   \* the source may forget what was published
  [s EXCEPT !.low = [w \in Lanes |-> Max2(@[w], pos[w])]]
(* What the coordinator does with an end that arrives; `Decided` compares it with the truth.      *)
Ends(t) == t = co.t /\ Open
Again(t) == co.st = "commit" /\ (t = co.prev \/ (t = co.t /\ ~On("no new term")))
Commit == [co EXCEPT !.t = Next1(co.t), !.st = "commit", !.prev = co.t, !.was = co.t, !.mk = TRUE]
Decided ==
  LET E == {i \in DOMAIN led : led[i].t = co.t
                                  /\ (~led[i].c \/ ~On("ledger outside the transaction"))}
  IN  IF E = {} THEN UNCHANGED <<ghost, broken>>
      ELSE LET e == led[CHOOSE i \in E : \A j \in E : j <= i]
               off == {w \in Lanes : ghost.pos[w] >= 0 /\ e.from[w] # ghost.pos[w]}
           IN  /\ ghost' = [ghost EXCEPT !.pos = [w \in Lanes |-> Max2(@[w], e.pos[w])],
                                         !.gen = Max2(@, e.gen)]
               /\ broken' = broken
                    \union (IF e.gen < ghost.gen THEN {"Q4"} ELSE {})
                    \union (IF e.gap \/ \E w \in off : e.from[w] > ghost.pos[w] THEN {"Q2"} ELSE {})
                    \union (IF ghost.hurt /\ off # {} THEN {"Q6"} ELSE {})
Arrives == \E t \in ends : Ends(t) /\ CoTo(Commit, lead) /\ Decided
           /\ UNCHANGED <<Topics, run, src>>
Ended(r) ==   \* the answer comes; another attempt at the same request is answered alike
  /\ Is(r, "ending") /\ UNCHANGED Topics
  /\ LET t == run[r].t
         done == [run EXCEPT ![r].ph = "live", ![r].t = Next1(t),
                             ![r].see = Known(r, run[r].pos, run[r].ep, @.ends)]
         heard == run' = done /\ src' = Told(src, run[r].pos)
     IN  CASE Ends(t) -> CoTo(Commit, lead) /\ Decided /\ heard
           [] Again(t) -> heard /\ UNCHANGED <<Kafka, ghost, broken>>
           [] OTHER -> Refused(r) /\ UNCHANGED src /\ UNCHANGED <<Kafka, ghost, broken>>
Unheard(r) ==   \* no answer in time; a begin goes to the top
  /\ Is(r, "ending") /\ UNCHANGED <<Kafka, Topics, World>>
  /\ IF \/ run[r].ep = run[r].see.ep
        \/ On("a lost end taken for failed") /\ On("end again after look")
     THEN Refused(r)
     ELSE IF On("end again after look")
     THEN run' = [run EXCEPT ![r].ph = "live", ![r].t = @ + 1, ![r].pos = run[r].see.pos,
                             ![r].ep = run[r].see.ep]
     ELSE run' = [run EXCEPT ![r].ph = "again", ![r].pos = View.pos, ![r].ep = View.ep]
SentAgain(r) ==
  /\ Is(r, "again") /\ UNCHANGED <<Topics, src>>
  /\ LET t == run[r].t
         done == [run EXCEPT ![r].ph = "live", ![r].t = Next1(t),
                             ![r].see = Known(r, run[r].pos, run[r].ep, @.ends)]
     IN  CASE Ends(t) -> CoTo(Commit, lead) /\ Decided /\ run' = done
           [] Again(t) -> run' = done /\ UNCHANGED <<Kafka, ghost, broken>>
           [] OTHER -> Go(r, "doubt") /\ UNCHANGED <<Kafka, ghost, broken>>
(* Markers: what was ended counts from now on, what was aborted is gone.                          *)
RowsIn(s) == [i \in DOMAIN s |-> s[i].row]
Twice(s) == \E i, j \in DOMAIN s : i < j /\ s[i] = s[j]
Behind(s) == \E i, j \in DOMAIN s : i < j /\ s[i] \div 10 = s[j] \div 10 /\ s[i] > s[j]
Markers ==
  /\ co.mk /\ UNCHANGED <<ids, run, src, ghost>>
  /\ LET l == [p \in DOMAIN lead |-> IF ~lead[p].open THEN lead[p] ELSE
                 [t |-> co.t, n |-> IF co.t = lead[p].t THEN lead[p].n ELSE 0, open |-> FALSE]]
         ok == co.st = "commit"
         pending(s) == {i \in DOMAIN s : ~s[i].c}
         put(s) == IF ok THEN [i \in DOMAIN s |-> [s[i] EXCEPT !.c = TRUE]]
                   ELSE SelectSeq(s, LAMBDA e : e.c)
         kept(L) == IF Past \/ L = <<>> THEN L   \* of which no more is asked
                    ELSE <<[Last(L) EXCEPT !.from = None, !.rows = [w \in Lanes |-> <<>>],
                             !.moved = Lanes]>>
         E == {i \in DOMAIN led : led[i].t = co.was}
         fresh(p) == RowsIn(SelectSeq(tgt[p], LAMBDA e : ~e.c))
         books == E # {} /\ LET e == led[CHOOSE i \in E : \A j \in E : j <= i] IN
                    \A p \in Lanes : fresh(p) = e.rows[p]
         T == [p \in Lanes |-> put(tgt[p])]
     IN  /\ CoTo([co EXCEPT !.mk = FALSE], l)
         /\ led' = kept(put(led)) /\ tgt' = T
         /\ hid' = IF ok /\ pending(led) # {}   \* what it wrote is there again
                   THEN [hid EXCEPT !.lost = @ \ ({0} \union Last(led).moved)] ELSE hid
         /\ broken' = IF ~ok THEN broken ELSE broken
              \union (IF books THEN {} ELSE {"Q3"})
              \union (IF \E p \in Lanes : Twice(RowsIn(T[p])) THEN {"Q1"} ELSE {})
              \union (IF \E p \in Lanes : Behind(RowsIn(T[p])) THEN {"Q5"} ELSE {})
(* An epoch: planned on the topics that the ledger knows, sent by workers, added up.              *)
Span(w, from, to) == [i \in 1 .. to - from |-> 10 * w + from + i]
Plan(r) ==
  /\ Is(r, "live") /\ UNCHANGED <<Topics, co, lead, ends>>
  /\ IF run[r].see.ids # ids /\ On("ids of the ledger") THEN Out(r) /\ UNCHANGED <<att, World>>
     ELSE
     \E to \in [Lanes -> 0 .. 2] :
       /\ \A w \in Lanes : to[w] <= src.has[w] /\ to[w] >= run[r].pos[w]
       /\ to # run[r].pos
       /\ run' = [run EXCEPT ![r].ph = "sending", ![r].see.ids = ids]
       /\ att' = att \union {[r |-> r, t |-> run[r].t, w |-> w, a |-> 1, n |-> 0, to |-> to[w],
                              base |-> IF lead[Into(w)].t = run[r].t
                                        THEN lead[Into(w)].n ELSE 0,
                              rows |-> Span(w, run[r].pos[w], to[w])] :
                             w \in {w \in Lanes : to[w] > run[r].pos[w]}}
       /\ ghost' = [ghost EXCEPT !.pos = [w \in Lanes |->
                      IF @[w] < 0 THEN run[r].pos[w] ELSE @[w]]]
       /\ broken' = IF ghost.gone THEN broken \union {"Q6"} ELSE broken
       /\ UNCHANGED src
Done(a) == a.n = Len(a.rows)
Send(a) ==
  /\ ~Done(a) /\ UNCHANGED <<run, led, hid, ids, ends, World>>
  /\ LET p == Into(a.w)     said == Answer(a.t, p, a.base + a.n)
     IN  /\ said # "no" /\ att' = (att \ {a}) \union {[a EXCEPT !.n = @ + 1]}
         /\ IF said = "had" THEN UNCHANGED <<co, lead, tgt>>
            ELSE /\ Taken(a.t, p)
                 /\ tgt' = [tgt EXCEPT ![p] = Append(@, [t |-> a.t, c |-> FALSE,
                                                          row |-> a.rows[a.n + 1]])]
Mine(r) == {a \in att : a.r = r /\ a.t = run[r].t}
Second(r) ==   \* it reads other rows: of two it skips one.  A copy of a task refuses to work
  /\ Strike("second attempt") /\ Is(r, "sending")
  /\ \E a \in {a \in Mine(r) : a.a = 1 /\ ~Done(a)} :
     \E copy \in {FALSE, ~On("second attempt sends")} :
       LET longer == Len(a.rows) = 1 /\ a.to < src.has[a.w]
           rows == IF Len(a.rows) = 2 THEN <<a.rows[2]>>
                   ELSE IF longer THEN <<a.rows[1] + 1>> ELSE a.rows
       IN  /\ ~\E b \in Mine(r) : b.w = a.w /\ b.a # 1
           /\ att' = att \union {[a EXCEPT !.a = IF copy THEN 3 ELSE 2, !.n = 0, !.rows = rows,
                                           !.to = IF longer THEN @ + 1 ELSE @]}
  /\ ghost' = [ghost EXCEPT !.struck = @ + 1]
  /\ UNCHANGED <<co, lead, ends, Topics, run, src, broken>>
Books(r) ==   \* all jobs have ended, each ran once; topics are still the planned ones
  /\ Is(r, "sending") /\ Mine(r) # {} /\ UNCHANGED <<hid, tgt, ids, ghost, broken>>
  /\ LET lanes == {a.w : a \in Mine(r)}
         of(w) == {a \in Mine(r) : a.w = w /\ Done(a)}
         heard == {w \in lanes : of(w) # {}}
         once == \A a \in Mine(r) : a.a # 2 \/ ~On("end although a task ran twice")
     IN  /\ heard # {} /\ once
         /\ heard = lanes \/ ~On("end while a worker may still send")
         /\ (\A w \in lanes : run[r].see.ids[w] = ids[w]) \/ ~On("ids before the end")
         /\ \E f \in {f \in [heard -> att] : \A w \in heard : f[w] \in of(w)} :
              \E pos \in {[w \in Lanes |-> IF w \in heard THEN f[w].to ELSE run[r].pos[w]]} :
                /\ Ledger(r, Entry(r, run[r].pos, pos, heard,
                     [w \in Lanes |-> IF w \in heard THEN f[w].rows ELSE <<>>], run[r].ep + 1), pos)
                /\ src' = IF On("told before the end") THEN src ELSE Told(src, pos)
GivenUp(r) == Is(r, "sending") /\ Go(r, "doubt") /\ UNCHANGED <<Kafka, Topics, World>>
(* In doubt: renew, then look.                                                                    *)
Renew(r) ==
  /\ Is(r, "doubt") /\ ~co.mk /\ UNCHANGED <<Topics, World>>
  /\ LET t == run[r].t
         take == ~On("take in place of renew")
         looks == On("no look after renew") /\ On("a lost end taken for done")
         stands == IF On("no look after renew") THEN [pos |-> run[r].pos, ep |-> run[r].ep]
                   ELSE [pos |-> run[r].see.pos, ep |-> run[r].see.ep]
         to(u) == run' = IF looks THEN [run EXCEPT ![r].ph = "renewed", ![r].t = u]
                         ELSE [run EXCEPT ![r].ph = "live", ![r].t = u, ![r].pos = stands.pos,
                          ![r].ep = stands.ep, ![r].see.pos = stands.pos, ![r].see.ep = stands.ep]
         prev == IF take THEN 0 ELSE co.t
     IN  IF t = co.t /\ Open /\ ~On("abort and go on under one term")
         THEN CoTo(Aborted(t, t), lead) /\ to(t)
         ELSE IF Open   \* also for one who is refused afterwards
         THEN Epoch(co.t) < MaxEpoch /\ CoTo(Aborted(co.t + 1, prev), lead) /\ UNCHANGED run
         ELSE IF co.st = "none"   \* the id is created again: nothing is compared
         THEN CoTo(Given(First, 0), lead) /\ IF On("forgotten id") THEN Top(r) ELSE to(First)
         ELSE IF t = co.prev /\ ~take THEN CoTo(Given(co.t, t), lead) /\ to(co.t)
         ELSE IF t = co.t \/ take
         THEN Epoch(co.t) < MaxEpoch /\ CoTo(Given(co.t + 1, prev), lead) /\ to(co.t + 1)
         ELSE Top(r) /\ UNCHANGED Kafka
LookAgain(r) ==
  /\ Is(r, "renewed") /\ ~co.mk /\ UNCHANGED <<Kafka, Topics, World>>
  /\ \E v \in {View} : LET me == run[r]
         first == me.see.ep
         odd == \/ ~v.has \/ v.hangs \/ ~Sound(v) \/ v.ep - first \notin {0, 1}
                \/ /\ v.ep = first /\ On("tail after a doubt")
                   /\ OursBehind({Pid(me.t), Pid(v.t)}, v.ends)
     IN  run' = IF odd THEN [run EXCEPT ![r] = [NoRun EXCEPT !.ph = "top"]]
                ELSE [run EXCEPT ![r].ph = "live", ![r].pos = v.pos, ![r].ep = v.ep,
                                 ![r].see = Known(r, v.pos, v.ep, v.ends)]
(* What others do.                                                                                *)
Struck(g) == ghost' = [g EXCEPT !.struck = @ + 1] /\ UNCHANGED <<run, broken>>
Quiet == ~co.mk /\ \A e \in Range(led) : e.c
Expire == /\ Strike("expire") /\ Open /\ Epoch(co.t) < MaxEpoch   \* the time of a transaction
          /\ CoTo(Aborted(co.t + 1, co.t), lead) /\ Struck(ghost) /\ UNCHANGED <<Topics, src>>
Stray == /\ Strike("stray") /\ ~co.mk /\ Epoch(co.t) < MaxEpoch /\ co.st # "none"   \* a late take
         /\ CoTo(IF Open THEN Aborted(co.t + 1, 0) ELSE Given(co.t + 1, 0), lead)
         /\ Struck(ghost) /\ UNCHANGED <<Topics, src>>
Forget == /\ Strike("forget") /\ ~co.mk /\ ~Open /\ co.st # "none"
          /\ CoTo([co EXCEPT !.t = 0, !.st = "none", !.prev = 0], lead)
          /\ Struck(ghost) /\ UNCHANGED <<Topics, src>>
Cut == /\ Strike("cut") /\ Quiet /\ \E n \in 0 .. Len(led) - 1 : led' = SubSeq(led, 1, n)
       /\ hid' = [hid EXCEPT !.lost = {}] /\ Struck([ghost EXCEPT !.hurt = TRUE, !.gen = 0])
       /\ UNCHANGED <<Kafka, tgt, ids, src>>
Lose == /\ Strike("lose") /\ Quiet /\ led # <<>>
        /\ \E k \in {0} \union Lanes : hid' = [hid EXCEPT !.lost = @ \union {k}]
        /\ Struck([ghost EXCEPT !.hurt = TRUE]) /\ UNCHANGED <<Kafka, led, tgt, ids, src>>
Hide == /\ Strike("stranger") /\ Quiet /\ hid.at < 0 /\ hid' = [hid EXCEPT !.at = Len(led)]
        /\ Struck(ghost) /\ UNCHANGED <<Kafka, led, tgt, ids, src>>
Recreate == /\ Strike("recreate") /\ Quiet /\ \E p \in Lanes :
               /\ ids' = [ids EXCEPT ![p] = @ + 1] /\ tgt' = [tgt EXCEPT ![p] = <<>>]
               /\ lead' = [lead EXCEPT ![p] = Idle]
               /\ Struck([ghost EXCEPT !.gone = @ \/ \E e \in Range(tgt[p]) : e.c])
            /\ UNCHANGED <<co, ends, att, led, hid, src>>
Grow == /\ \E w \in Lanes : src.has[w] < Rows[w] /\ src' = [src EXCEPT !.has[w] = @ + 1]
        /\ UNCHANGED <<Kafka, Topics, run, ghost, broken>>
Next == \/ \E r \in Runs : \/ Note(r) \/ Take(r) \/ Look(r) \/ Begin(r) \/ Ended(r) \/ Unheard(r)
                            \/ SentAgain(r) \/ Plan(r) \/ Second(r) \/ Books(r)
                            \/ GivenUp(r) \/ Renew(r) \/ LookAgain(r)
        \/ \E a \in att : Send(a)
        \/ Arrives \/ Markers \/ Expire \/ Stray \/ Forget \/ Cut \/ Lose \/ Hide
        \/ Recreate \/ Grow
Spec == Init /\ [][Next]_vars
Held(q) == q \notin broken     Q1_NoDup == Held("Q1")     Q2_NoLoss == Held("Q2")
Q3_Atomic == Held("Q3")     Q4_Fenced == Held("Q4")     Q5_Order == Held("Q5")
Q6_Witnesses == Held("Q6")
=============================================================================
