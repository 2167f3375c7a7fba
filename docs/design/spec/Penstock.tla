------------------------------ MODULE Penstock ------------------------------
(* How Penstock lands a log exactly once, as built; README.md, beside this, tells how to read    *)
(* it.  Lives may be killed, or be zombies.  Requests arrive late, never, or twice.  Faults      *)
(* strike MaxFaults times.  Defences in Off are off: each taken away breaks an invariant.        *)
(* Record 10 * source + offset, owner 10 * line + life, chain of a table's rejects its + Many.   *)
EXTENDS Integers, Sequences, FiniteSets
CONSTANTS
  Many,        \* target tables: 1 .. Many; the quarantine is the table behind them
  Sources, First, \* topic partitions: all, and those at the beginning; "retopic" brings the next
  N, Early,    \* records in a source, at offsets 0 .. N - 1, and how many are there at once
  Shape,       \* which records are rows, bad or nothing: see Kind
  Lives, Elsewhere, \* coordinators 1 .. n; those of them that have another pending store
  Latest,      \* TRUE: `start: latest`; FALSE: earliest
  Faults, MaxFaults, Off, MaxEpochs, MaxWaiting  \* epochs of a life; commits of a table that wait
VARIABLES
  log,    \* [end, low: source -> offset; live: sources that are there]
  tab,    \* table -> [uuid, sch, head, n, files, snaps]: what its metadata says of its data
  led,    \* chain -> its ledger, and what the witnesses say of it
  net,    \* requests on their way
  store,  \* host -> [gen, own, rows, exam]: the pending store
  life,   \* coordinator -> [ph, gen, own, over, re, ep, trk]
  away,   \* tables that do not answer
  ghost, broken  \* what only the invariants know, and those that were broken
vars == <<log, tab, led, net, store, life, away, ghost, broken>>
Tables == 1 .. Many     Q == Many + 1
Chains == 1 .. 2 * Many     Rej(t) == Many + t     IsRej(k) == k > Many
For == [k \in Chains |-> IF k > Many THEN k - Many ELSE k]   \* the target table of a chain
At  == [k \in Chains |-> IF k > Many THEN Q ELSE k]          \* the table that it is landed in
On(d)  == d \notin Off     Strike(name) == name \in Faults /\ ghost.struck < MaxFaults
Past   == {"rollback", "expire"} \intersect Faults # {}   \* is history of any use?
Closings == Cardinality(Sources) + 1   \* keys of positions: ids of topics, and a table's closings
Keys     == 1 .. IF "retry" \in Faults THEN Closings ELSE Closings - 1
Key == [s \in Sources |-> IF On("topic id") THEN s ELSE 1]   \* without ids, a topic is its name
Host(c)  == IF c \in Elsewhere THEN 2 ELSE 1     Hosts == {Host(c) : c \in Lives}
None     == [k \in Keys |-> IF k = Closings THEN 0 ELSE -1]     Zero == [k \in Keys |-> 0]
Max2(x, y) == IF x < y THEN y ELSE x     Max(S) == CHOOSE x \in S : \A y \in S : y <= x
Range(f) == {f[i] : i \in DOMAIN f}     Offset(x) == x % 10     Source(x) == x \div 10
Kind == [t \in Tables |->   \* "widen": bad until the schema changes; "narrow": a row till so
  CASE Shape = "rows"   -> <<"row", "row", "row">>     [] Shape = "later" -> <<"widen", "widen">>
    [] Shape = "narrow" -> <<"narrow", "bad", "row">>  [] Shape = "widen" -> <<"widen", "row">>
    [] Shape = "slow"  -> IF t = 1 THEN <<"row", "row">> ELSE <<"none", "none">>
    [] Shape = "mixed" -> IF t = 1 THEN <<"bad", "row", "row">> ELSE <<"row", "none", "bad">>]
Verdict(t, x, sch, late) ==   \* of a look that may be too late for a record; table Many is a route
  LET kind == Kind[t][Offset(x) + 1]
  IN  IF late /\ Offset(x) = 0 THEN IF On("own refusal") \/ t = Many THEN "bad" ELSE "none"
      ELSE IF kind \notin {"widen", "narrow"} THEN kind
      ELSE IF (sch = 1) = (kind = "widen") THEN "bad" ELSE "row"
(* Tables: snapshots, a ledger a chain, one compare-and-set.  An id: segment and ranges alone.   *)
IdOf(seg, from, to) == LET d(k) == IF k \in Keys THEN 10 * from[k] + to[k] ELSE 0
                       IN  1000000 * seg + d(1) + 100 * d(2) + 10000 * d(3)
Nonce(c, n) == 10000000 + 1000 * c + n
NoLedger == [is |-> FALSE, offs |-> None, gen |-> 0, own |-> 0, seg |-> 0, recent |-> {},
             last |-> 0, back |-> FALSE, wit |-> "absent"]
NewTable == [uuid |-> 1, sch |-> 1, head |-> 0, n |-> 0, files |-> {}, snaps |-> <<>>]
Live(k)  == {f \in tab[At[k]].files : f.k = k /\ f.num = 0}     Of(own) == own \div 10
Rows(k)  == UNION {f.rows : f \in Live(k)}
Moved(T, k, files) ==   \* the next snapshot; `k` is the chain whose summary it bears, or 0
  [T EXCEPT !.head = T.n + 1, !.n = @ + 1, !.files = files,
    !.snaps = IF ~Past THEN @
              ELSE Append(@, [par |-> T.head, k |-> k, told |-> TRUE, files |-> files])]
RECURSIVE Newest(_, _, _), Concat(_, _)   \* newest own snapshot; 0: none; -1: cut off by expiry
Newest(snaps, i, k) == IF i = 0 THEN 0 ELSE IF ~snaps[i].told THEN -1
                       ELSE IF snaps[i].k = k THEN i ELSE Newest(snaps, snaps[i].par, k)
Seen(T, L, k) ==   \* the witnesses: a summary on the ancestry, the property; a rollback
  LET i == Newest(T.snaps, T.head, k)
  IN  CASE ~L.is -> "absent"
        [] ~On("rollback witness") \/ (i > 0 /\ i = L.last) -> "agreed"
        [] ~On("second witness") -> "absent"
        [] i >= 0 -> "rolled back"
        [] ~On("third witness") \/ ~L.back -> "agreed"
        [] OTHER -> "uncertain"
Looked(p, T, rolled) ==   \* all ledgers, when the history of a table was changed by others
  [k \in Chains |-> IF At[k] # p THEN led[k] ELSE
    LET L == [led[k] EXCEPT !.back = @ \/ rolled] IN [L EXCEPT !.wit = Seen(T, L, k)]]
Ledger(k) == IF led[k].wit = "absent" THEN NoLedger ELSE led[k]
Landed(L, r, by) ==   \* the ledger after a commit; an empty range must not move it
  [L EXCEPT !.is = TRUE, !.gen = by.gen, !.own = by.own, !.recent = @ \union {<<r.id, r.att>>},
    !.offs = [k \in Keys |-> IF r.from[k] < r.to[k] \/ (~On("empty ranges") /\ r.to[k] > @[k])
                             THEN r.to[k] ELSE IF @[k] = -1 THEN r.orig[k] ELSE @[k]]]
Retried(m) == IF ~m.hand THEN ~On("check inside the loop")
              ELSE ~On("given up when moved") /\ <<m.row.id, m.row.att>> \notin led[m.row.k].recent
Kept(S) == IF Strike("rollback") /\ ~On("sequence numbers") THEN net ELSE S   \* may land some day
Matches(m, T) == T.head = m.base /\ T.uuid = m.uuid /\ (T.n = m.n \/ ~On("sequence numbers"))
MayLand(m, T) == Matches(m, T) \/ ~On("compare and set") \/ Retried(m)
Table(p, T) == /\ tab' = [tab EXCEPT ![p] = T]
               /\ net' = Kept({m \in net : At[m.row.k] # p \/ MayLand(m, T)})
(* core/decide.py: the order of rules matters.  Of a line not made `over`, any claim is newer.   *)
Outranks(L, by, over) == L.is /\ On("generation") /\
  \/ L.gen > by.gen \/ (L.gen = by.gen /\ L.own # by.own)
  \/ Of(L.own) # Of(by.own) /\ Of(L.own) \notin over /\ On("lines")
Newer(c, L) == Outranks(L, life[c], life[c].over)
Decide(c, r, L) ==
  LET P == {k \in Keys : r.from[k] < r.to[k]}
      offs == [k \in P |-> IF L.offs[k] = -1 THEN r.orig[k] ELSE L.offs[k]]
      mine == \E e \in L.recent : e[1] = r.id
      at == \A k \in P : offs[k] = r.from[k]
  IN  CASE mine /\ On("own id") -> IF <<r.id, r.att>> \in L.recent THEN "ours" ELSE "theirs"
        [] P # {} /\ (\A k \in P : offs[k] >= r.to[k]) /\ On("own id") -> "theirs"
        [] at /\ ~On("order of rules") -> "commit"
        [] Newer(c, L) -> "fenced"
        [] at \/ ~On("offsets") -> "commit"
        [] \E k \in P : offs[k] < r.from[k] -> "gap"
        [] OTHER -> "superseded"
(* Lives.  A track is "aside" until what is pending is settled and the table is opened.           *)
NoTrack == [st |-> "aside", exp |-> None, rexp |-> None, exam |-> None, skip |-> {},
            sch |-> 1, uuid |-> 1, seg |-> 0, line |-> <<>>]
NoLife == [ph |-> "new", gen |-> 0, own |-> 0, over |-> {}, re |-> FALSE,
           ep |-> 0, trk |-> [t \in Tables |-> NoTrack]]
NoExam  == [basis |-> None, rejects |-> None, reached |-> None]
NoStore == [gen |-> 0, own |-> 0, rows |-> <<>>, exam |-> [t \in Tables |-> NoExam]]
Init ==
  /\ log = [end |-> [s \in Sources |-> Early], low |-> [s \in Sources |-> 0], live |-> First]
  /\ tab = [p \in 1 .. Q |-> NewTable] /\ led = [k \in Chains |-> NoLedger]
  /\ net = {} /\ away = {} /\ broken = {}
  /\ store = [h \in Hosts |-> NoStore] /\ life = [c \in Lives |-> NoLife]
  /\ ghost = [base |-> [t \in Tables |-> None], given |-> {}, rolled |-> {}, window |-> {},
              told |-> {}, aborted |-> {}, gone |-> {}, struck |-> 0]
Runs(c)  == life[c].ph = "run"     Trk(c, t) == life[c].trk[t]
Holds(c) == store[Host(c)].own = life[c].own /\ store[Host(c)].gen = life[c].gen
Exit(c)  == life' = [life EXCEPT ![c] = [NoLife EXCEPT !.ph = "out"]]
Aside(c, t, st) == life' = [life EXCEPT ![c].trk[t] = [NoTrack EXCEPT !.st = st]]
World    == <<log, away, broken>>     Tabs == <<tab, led, net>>
Written(c, k, orig) ==   \* the ledger that a fence, or the beginning of a chain, leaves
  LET n == tab[At[k]].n
      r == [from |-> Zero, to |-> Zero, orig |-> orig, id |-> Nonce(c, 100 + n), att |-> 0]
  IN  [Landed(Ledger(k), r, life[c]) EXCEPT !.last = n + 1, !.back = FALSE, !.wit = "agreed"]
Fence(c, ks) ==   \* move heads, so that no request in flight can land; it moves no progress
  /\ tab' = [p \in 1 .. Q |-> IF \E k \in ks : At[k] = p
              THEN Moved(tab[p], CHOOSE k \in ks : At[k] = p, tab[p].files) ELSE tab[p]]
  /\ led' = [k \in Chains |-> IF k \in ks /\ led[k].wit # "rolled back" THEN Written(c, k, None)
                              ELSE led[k]]
  /\ net' = Kept({m \in net : MayLand(m, tab'[At[m.row.k]])})
Ledgers == {led[k] : k \in {k \in Chains : At[k] \notin away}}   \* a claim is above all seen
Over(own) == {Of(own)} \union {Of(L.own) : L \in Ledgers}
Pending(c, t) == IF Many = 1 THEN store[Host(c)].rows
                 ELSE SelectSeq(store[Host(c)].rows, LAMBDA r : For[r.k] = t)
Start(c) ==
  /\ UNCHANGED <<World, Tabs, ghost>> /\ life[c].ph = "new"
  /\ \A d \in 1 .. c - 1 : life[d].ph # "new"
  /\ LET S == store[Host(c)]
         gen == Max({L.gen : L \in Ledgers} \union {S.gen}) + 1
         strange == \E L \in Ledgers: Outranks(L, S, {}) /\ (L.wit # "rolled back" \/ L.gen > S.gen)
         own == c + 10 * IF strange \/ S.own = 0 THEN c ELSE Of(S.own)
     IN  /\ store' = [store EXCEPT ![Host(c)].gen = gen, ![Host(c)].own = own]
         /\ life' = [life EXCEPT ![c] = [@ EXCEPT !.ph = "run", !.gen = gen, !.own = own,
                       !.over = IF strange THEN Over(S.own) ELSE {},
                       !.trk = [t \in Tables |-> IF Pending(c, t) = <<>> THEN @[t] ELSE NoTrack]]]
Fenced(c, by) ==   \* another owner landed: claim again, once, if our own store still names us
  /\ LET gen == Max2(by.gen, life[c].gen) + 1 IN
     IF ~Holds(c) \/ life[c].re THEN Exit(c) /\ UNCHANGED store
     ELSE /\ store' = [store EXCEPT ![Host(c)].gen = gen, ![Host(c)].own = @ + 50]
          /\ life' = [life EXCEPT ![c].gen = gen, ![c].own = @ + 50, ![c].re = TRUE,
                        ![c].over = @ \union Over(life[c].own),
                        ![c].trk = [u \in Tables |-> NoTrack]]
  /\ UNCHANGED <<Tabs, ghost>>
RolledBack(c, k) ==   \* fence at once, then stop: what to do is a human's choice
  IF Outranks(led[k], life[c], {Of(led[k].own)}) THEN Fenced(c, led[k])
  ELSE /\ (IF On("rollback fence") THEN Fence(c, {k}) ELSE UNCHANGED Tabs) /\ UNCHANGED store
       /\ ghost' = [ghost EXCEPT !.told = @ \union {At[k]}, !.window = @ \ {At[k]}]
       /\ Aside(c, For[k], "stop")
(* Find where a table stands, but for what is in quarantine; what was examined has its own basis. *)
Opened(c, t) ==
  LET own == Ledger(t).offs
      rej == Ledger(Rej(t)).offs
      known == store[Host(c)].exam[t]
      good == (known.basis = own /\ known.rejects = rej) \/ ~On("examined basis")
  IN  [st |-> "in", exp |-> own, rexp |-> rej, line |-> <<>>, sch |-> tab[t].sch,
       exam |-> IF good THEN [k \in Keys |-> Max2(own[k], known.reached[k])] ELSE own,
       skip |-> IF On("quarantine look-up") THEN Rows(Rej(t)) ELSE {},
       uuid |-> tab[t].uuid, seg |-> led[t].seg]
Found(c, t) == t \notin away /\ Q \notin away /\ Pending(c, t) = <<>>
Warm(c, t) ==   \* a stand-by that would keep what it saw before its claim
  /\ life[c].ph = "new" /\ Trk(c, t).st = "aside" /\ Found(c, t) /\ ~On("look after the claim")
  /\ life' = [life EXCEPT ![c].trk[t] = Opened(c, t)] /\ UNCHANGED <<World, Tabs, store, ghost>>
Open(c, t) ==
  /\ Runs(c) /\ Trk(c, t).st = "aside" /\ Found(c, t)
  /\ LET both == {t, Rej(t)}
         track == Opened(c, t)
         rolled == {k \in both : led[k].wit = "rolled back"}
         newer == {k \in both : Newer(c, Ledger(k))}
     IN  IF rolled # {} THEN RolledBack(c, Max(rolled))
         ELSE IF \E k \in both : led[k].wit = "uncertain"
         THEN Aside(c, t, "stop") /\ UNCHANGED <<Tabs, store, ghost>>
         ELSE IF newer # {} THEN Fenced(c, Ledger(Max(newer)))
         ELSE /\ life' = [life EXCEPT ![c].trk[t] = track] /\ UNCHANGED <<store, ghost>>
              /\ IF life[c].over # {} /\ On("distrust") THEN Fence(c, both) ELSE UNCHANGED Tabs
  /\ UNCHANGED World
Begin(c, t) ==   \* write start positions into the ledger before anything behind them is read
  /\ Runs(c) /\ Trk(c, t).st = "in" /\ Trk(c, t).line = <<>> /\ t \notin away /\ UNCHANGED World
  /\ tab[t].uuid = Trk(c, t).uuid /\ \E s \in log.live : Trk(c, t).exp[Key[s]] = -1
  /\ LET T == Trk(c, t)
         new == {s \in log.live : T.exp[Key[s]] = -1}
         at(k) == LET s == CHOOSE s \in new : Key[s] = k
                  IN  IF Latest /\ s \in First THEN log.end[s] ELSE log.low[s]
         orig == [k \in Keys |-> IF \E s \in new : Key[s] = k THEN at(k) ELSE -1]
         L == Written(c, t, orig)
         now == IF On("start position") THEN L.offs ELSE orig
         took(from) == [k \in Keys |-> IF orig[k] = -1 THEN from[k] ELSE now[k]]
     IN  IF led[t].wit \in {"rolled back", "uncertain"}
         THEN Aside(c, t, "aside") /\ UNCHANGED <<Tabs, store, ghost>>
         ELSE IF Newer(c, Ledger(t)) THEN Fenced(c, Ledger(t))
         ELSE /\ IF ~On("start position") THEN UNCHANGED Tabs
                 ELSE Table(t, Moved(tab[t], t, tab[t].files)) /\ led' = [led EXCEPT ![t] = L]
              /\ life' = [life EXCEPT ![c].trk[t].exp = took(@), ![c].trk[t].exam = took(@)]
              /\ ghost' = [ghost EXCEPT !.base[t] =
                   [k \in Keys |-> IF @[k] = -1 /\ orig[k] # -1 THEN now[k] ELSE @[k]]]
              /\ UNCHANGED store
(* An epoch: read to common ends, and put the commits of all tables into the store in one act.    *)
Active(c) == {t \in Tables : Trk(c, t).st = "in"}
Readable(T, s) == T.exam[Key[s]] # -1 /\ (T.exam[Key[s]] >= log.low[s] \/ ~On("retention check"))
Behind(T, s) == Readable(T, s) /\ T.exam[Key[s]] < log.end[s]
CanEpoch(c) ==
  /\ life[c].ep < MaxEpochs /\ \E t \in Active(c) : \E s \in log.live : Behind(Trk(c, t), s)
  /\ \A t \in Active(c) : Len(Trk(c, t).line) < MaxWaiting
RowOf(c, k, from, to, rows, orig) ==
  LET T == Trk(c, For[k])
      moved == [i \in Keys |-> IF from[i] < to[i] \/ ~On("empty ranges") THEN from[i] ELSE 0]
      stop == [i \in Keys |-> IF from[i] < to[i] THEN to[i] ELSE moved[i]]
      seg == IF On("segment") /\ ~IsRej(k) THEN T.seg ELSE 0
  IN  [k |-> k, from |-> moved, to |-> stop, rows |-> rows, orig |-> orig, num |-> 0,
       sch |-> T.sch, uuid |-> T.uuid, id |-> IdOf(seg, moved, stop),
       att |-> 100 * c + life[c].ep + 1, own |-> life[c].own]
Prepared(c, t, ends, late) ==   \* what a table gets of an epoch: its quarantine commit first
  LET T == Trk(c, t)
      mine == {s \in log.live : Readable(T, s)}
      to == [k \in Keys |-> Max({T.exam[k]} \union {ends[s] : s \in {s \in mine : Key[s] = k}})]
      read == UNION {{10 * s + o : o \in Max2(T.exam[Key[s]], log.low[s]) .. to[Key[s]] - 1}
                       : s \in mine} \ T.skip
      rows == {x \in read : Verdict(t, x, T.sch, late) = "row"}
      bad  == {x \in read : Verdict(t, x, T.sch, late) = "bad"}
      from == [k \in Keys |-> IF T.rexp[k] = -1 THEN T.exp[k] ELSE T.rexp[k]]
      orig == [k \in Keys |-> IF T.rexp[k] = -1 THEN T.exp[k] ELSE -1]
      start == IF On("start position") THEN None ELSE T.exp
      q == IF bad = {} THEN <<>> ELSE <<RowOf(c, Rej(t), from, to, bad, orig)>>
      own == IF rows = {} THEN <<>> ELSE <<RowOf(c, t, T.exp, to, rows, start)>>
      all == IF On("quarantine first") THEN q \o own ELSE own \o q
  IN  [rows |-> all,
       track |-> [T EXCEPT !.exam = to, !.line = @ \o all,
                   !.exp = IF own = <<>> THEN @ ELSE to,
                   !.rexp = IF q = <<>> THEN @ ELSE [k \in Keys |-> Max2(from[k], to[k])]]]
Concat(f, t) == IF t = 0 THEN <<>>   \* the rows of all tables, in a fixed order
                ELSE Concat(f, t - 1) \o (IF t \in DOMAIN f THEN f[t].rows ELSE <<>>)
Epoch(c) ==
  /\ Runs(c) /\ CanEpoch(c) /\ UNCHANGED <<World, Tabs, ghost>>
  /\ IF ~Holds(c) THEN Exit(c) /\ UNCHANGED store ELSE \E ends \in [log.live -> 0 .. N] :
       /\ \A s \in log.live : ends[s] <= log.end[s] /\ (ends[s] = 0 \/ \E t \in Active(c) :
            Behind(Trk(c, t), s) /\ Trk(c, t).exam[Key[s]] < ends[s])
       /\ \E s \in log.live : ends[s] > 0
       /\ \E late \in IF Shape = "slow" THEN BOOLEAN ELSE {FALSE} :
          \E made \in {[t \in Active(c) |-> Prepared(c, t, ends, late)]} :
          LET trk == [t \in Tables |-> IF t \in DOMAIN made THEN made[t].track ELSE Trk(c, t)]
              exam == [t \in Tables |-> IF t \notin DOMAIN made THEN store[Host(c)].exam[t]
                   ELSE [basis |-> trk[t].exp, rejects |-> trk[t].rexp, reached |-> trk[t].exam]]
              rows == Concat(made, Many)
          IN  /\ life' = [life EXCEPT ![c].ep = @ + 1, ![c].trk = trk]
              /\ store' = [store EXCEPT ![Host(c)].rows = @ \o rows, ![Host(c)].exam = exam]
Prepare(c, t, r, to) ==   \* a commit of one table that is prepared by itself
  IF ~Holds(c) THEN Exit(c) /\ UNCHANGED store
  ELSE /\ life' = [life EXCEPT ![c].ep = @ + 1, ![c].trk[t].exp = to, ![c].trk[t].line = <<r>>]
       /\ store' = [store EXCEPT ![Host(c)].rows = Append(@, r)]
Idle(c, t) == Runs(c) /\ life[c].ep < MaxEpochs /\ Trk(c, t).st = "in" /\ Trk(c, t).line = <<>>
Anchor(c, t) ==   \* a quiet table's ledger is brought level: progress, no files
  /\ Idle(c, t) /\ Trk(c, t).exam # Trk(c, t).exp /\ UNCHANGED <<World, Tabs, ghost>>
  /\ LET r == RowOf(c, t, Trk(c, t).exp, Trk(c, t).exam, {}, None)
     IN  Prepare(c, t, [r EXCEPT !.id = Nonce(c, life[c].ep + 1)], Trk(c, t).exam)
Consent(c, t, s) ==   \* retention took records that were not read: a human lets go of them
  /\ Runs(c) /\ Trk(c, t).st = "in" /\ s \in log.live /\ On("retention check")
  /\ Trk(c, t).exam[Key[s]] \in 0 .. log.low[s] - 1
  /\ life' = [life EXCEPT ![c].trk[t].exam[Key[s]] = log.low[s]]
  /\ ghost' = [ghost EXCEPT !.given = @ \union
                 {<<t, 10 * s + o>> : o \in Trk(c, t).exam[Key[s]] .. log.low[s] - 1}]
  /\ UNCHANGED <<World, Tabs, store>>
(* One turn of the loop that lands; of rows in memory, or of a table aside: of the store's oldest.*)
IsLive(r) == \E f \in tab[At[r.k]].files : f.k = r.k /\ f.att = r.att
Settle(c, t, r, ok) ==   \* PENDING -> COMMITTED or ABORTED, guarded by the claim
  LET h == Host(c)
      wrong == IF ok THEN r.rows # {} /\ ~IsLive(r)   \* a seek forgets what was prepared before
               ELSE IsLive(r) /\ 1000000 * led[r.k].seg <= r.id
      harm == IF wrong /\ At[r.k] \notin ghost.rolled THEN {"I10"} ELSE {}
  IN  IF ~Holds(c) THEN Exit(c) /\ UNCHANGED <<store, ghost, broken>>
      ELSE /\ broken' = broken \union harm   \* what was dropped is not examined
           /\ store' = [store EXCEPT
                ![h].rows = SelectSeq(@, LAMBDA x : x.k # r.k \/ x.att # r.att),
                ![h].exam[t] = IF ok \/ ~On("examined forgotten") THEN @ ELSE NoExam]
           /\ ghost' = IF ok THEN ghost ELSE [ghost EXCEPT !.aborted = @ \union {<<r.k, r.att>>}]
           /\ IF Trk(c, t).st = "in" /\ ok THEN life' = [life EXCEPT ![c].trk[t].line = Tail(@)]
              ELSE Aside(c, t, IF Trk(c, t).st = "stop" THEN "stop" ELSE "aside")
Drop(c, t, r) ==   \* a quarantine commit waits for recovery, which drops its followers first
  IF Trk(c, t).st = "in" /\ IsRej(r.k)
  THEN Aside(c, t, "aside") /\ UNCHANGED <<store, ghost, broken>> ELSE Settle(c, t, r, FALSE)
Judge(c, r) == Decide(c, r, Ledger(r.k))
Gone(c, t, r) == Trk(c, t).st = "aside" /\ <<r.k, r.att>> \in ghost.gone /\ On("file check")
(* What another line prepared is not landed: others may have judged it otherwise since.           *)
Stale(c, t, r) == Trk(c, t).st = "aside" /\ Of(r.own) # Of(life[c].own) /\ On("distrust")
Fails(c, t, r) == LET d == Judge(c, r) IN IF d = "commit" THEN Gone(c, t, r) \/ Stale(c, t, r)
                                          ELSE d \in {"theirs", "gap", "superseded"}
Foremost(c, t, r) ==   \* what follows a quarantine commit that cannot land would bury its records
  LET after == SelectSeq(Pending(c, t), LAMBDA x : ~IsRej(x.k))
  IN  IF IsRej(r.k) /\ Trk(c, t).st = "aside" /\ after # <<>> /\ On("followers") /\ Fails(c, t, r)
      THEN Head(after) ELSE r
Missing(t, held) == \* what the ledger of a table claims, and the table does not hold
  {x \in {10 * s + o : s \in Sources, o \in 0 .. N - 1} :
     LET k == Key[Source(x)]
     IN  /\ ghost.base[t][k] \in 0 .. Offset(x) /\ Offset(x) < led[t].offs[k]
         /\ (On("topic id") \/ Source(x) \in log.live) /\ Kind[t][Offset(x) + 1] # "none"
         /\ (On("own refusal") \/ (led[Many].offs[k] > Offset(x) /\ x \notin Rows(Rej(Many))))
         /\ x \notin held /\ <<t, x>> \notin ghost.given}
Lost(t) == UNION {Missing(t, held) : held \in {Rows(t) \union Rows(Rej(t))}}
Line(c, t) == IF Trk(c, t).st = "in" THEN Trk(c, t).line   \* of a life that runs
              ELSE IF Trk(c, t).st = "aside" THEN Pending(c, t) ELSE <<>>
Turn(c, t) ==
  /\ Runs(c) /\ \E line \in {Line(c, t)} : line # <<>> /\ \E r \in {Foremost(c, t, line[1])} :
     \E k \in {r.k}, p \in {At[r.k]}, d \in {Judge(c, r)} :
     LET keep_out == r # line[1] \/ Gone(c, t, r) \/ Stale(c, t, r)
                     \/ (r.rows # {} /\ ~IsRej(k) /\ tab[p].sch # r.sch)
         sent == [row |-> r, base |-> tab[p].head, uuid |-> tab[p].uuid, gone |-> {},
                  n |-> tab[p].n, hand |-> FALSE, led |-> Landed(Ledger(k), r, life[c])]
         harm == IF ~IsRej(k) /\ t \in ghost.rolled /\ Lost(t) # {} THEN {"I2"}
                 ELSE IF Trk(c, t).st = "aside" /\ <<k, r.att>> \in ghost.gone THEN {"I6"} ELSE {}
     IN  IF p \in away THEN /\ On("parking") /\ Trk(c, t).st = "in" /\ Aside(c, t, "aside")
                            /\ UNCHANGED <<Tabs, store, ghost, broken>>
         ELSE IF (~IsRej(k) /\ tab[p].uuid # r.uuid) \/ led[k].wit = "uncertain"
         THEN Aside(c, t, "stop") /\ UNCHANGED <<Tabs, store, ghost, broken>>
         ELSE IF led[k].wit = "rolled back" THEN RolledBack(c, k) /\ UNCHANGED broken
         ELSE IF d = "fenced" THEN Fenced(c, Ledger(k)) /\ UNCHANGED broken
         ELSE IF d = "ours" THEN Settle(c, t, r, TRUE) /\ UNCHANGED Tabs
         ELSE IF d # "commit" THEN Drop(c, t, r) /\ UNCHANGED Tabs
         ELSE IF keep_out
         THEN Drop(c, t, r) /\ IF On("abort fence") THEN Fence(c, {k}) ELSE UNCHANGED Tabs
         ELSE /\ \E m \in {sent} : m \notin net /\ net' = net \union {m}
              /\ broken' = broken \union harm /\ UNCHANGED <<tab, led, store, life, ghost>>
  /\ UNCHANGED <<log, away>>
Park(c, t) ==   \* whatever is wrong with it: till the next life; what was prepared is settled then
  Runs(c) /\ Trk(c, t).st = "in" /\ Aside(c, t, "stop") /\ UNCHANGED <<World, Tabs, store, ghost>>
(* By hand.  A replay and a seek land by one attempt on what was examined, or are given up.       *)
Struck(g) == ghost' = [g EXCEPT !.struck = @ + 1]
Here(c, t) == \A k \in {t, Rej(t)} : At[k] \notin away /\ ~Newer(c, led[k])
ByHand(c, t, rows, gone, L) ==
  LET id == Nonce(c, 200 + tab[t].n)
      r == [k |-> t, rows |-> rows, att |-> id, id |-> id, sch |-> tab[t].sch, num |-> 0]
  IN  /\ net' = net \union {[row |-> r, base |-> tab[t].head, uuid |-> tab[t].uuid, gone |-> gone,
              n |-> tab[t].n, hand |-> TRUE, led |-> [L EXCEPT !.gen = life[c].gen,
                !.own = life[c].own, !.recent = @ \union {<<id, id>>}]]}
      /\ Struck(ghost) /\ UNCHANGED <<World, tab, led, store, life>>
(* The log of closings: a refusal that fits is closed under the next number; below zero: open.   *)
Closed(t) == {f \in tab[Q].files : f.k = Rej(t) /\ f.num # 0}
Number(f) == IF f.num < 0 THEN -f.num ELSE f.num
LastOf(t, x) == LET F == {f \in Closed(t) : x \in f.rows}
                IN  IF F = {} THEN 0 ELSE (CHOOSE f \in F : \A g \in F : Number(g) <= Number(f)).num
Followed(t) == IF "retry" \notin Faults THEN {}
               ELSE {x \in Rows(Rej(t)) : LastOf(t, x) \in 1 .. led[t].offs[Closings]}
Replay(c, t) ==   \* files that hold a stretch are replaced by what it is now; positions stay
  /\ Strike("replay") /\ Idle(c, t) /\ Here(c, t) /\ led[t].wit = "agreed"
  /\ \E s \in log.live : \E from, to \in 0 .. led[t].offs[Key[s]] :
       LET stretch == {10 * s + o : o \in from .. to - 1}
           files == {f \in Live(t) : f.rows \intersect stretch # {}}
           held == UNION {f.rows : f \in files}
           out == IF On("replay look-up") THEN Rows(Rej(t)) \ Followed(t) ELSE {}
           there == {x \in stretch : Offset(x) >= log.low[s]}
           rows == {x \in there \ out : Verdict(t, x, tab[t].sch, FALSE) = "row"}
       IN  /\ files # {} /\ (On("whole files") => held \subseteq stretch)
           /\ (On("all seen again") => (held \intersect stretch) \subseteq rows)
           /\ ByHand(c, t, rows, {f.n : f \in files}, led[t])
Seek(c, t) ==   \* a table that was rolled back is put back to where its rows end
  /\ Strike("seek") /\ Runs(c) /\ Trk(c, t).st = "stop" /\ Here(c, t) /\ led[t].wit = "rolled back"
  /\ LET ends(k) == LET X == {x \in Rows(t) : Key[Source(x)] = k}
                    IN  IF X = {} \/ ~On("end of the rows") THEN ghost.base[t][k]
                        ELSE Offset(Max(X)) + 1
     IN  ByHand(c, t, {}, {}, [led[t] EXCEPT !.seg = @ + 1,
           !.recent = IF On("segment") THEN {} ELSE @,
           !.offs = [k \in Keys |-> IF k = Closings \/ @[k] = -1 THEN @[k] ELSE ends(k)]])
Sought(c, t) ==   \* what was prepared before is dropped, and not decided on
  /\ Runs(c) /\ Trk(c, t).st = "stop" /\ Holds(c) /\ led[t].seg > 0
  /\ led[t].gen = life[c].gen /\ led[t].own = life[c].own /\ Cardinality(led[t].recent) = 1
  /\ \E r \in Range(Pending(c, t)) : ~IsRej(r.k) /\ Settle(c, t, r, FALSE)
  /\ UNCHANGED <<log, away, Tabs>>
RetryRow(c, t, k, n, to, rows, num) ==
  [RowOf(c, k, [Zero EXCEPT ![Closings] = n], [Zero EXCEPT ![Closings] = to], rows, None)
     EXCEPT !.num = num, !.sch = tab[t].sch]
Close(c, t) ==
  /\ Strike("retry") /\ Idle(c, t) /\ Here(c, t) /\ Struck(ghost) /\ UNCHANGED <<World, Tabs>>
  /\ LET n == led[Rej(t)].offs[Closings]
     IN  /\ (On("unfinished first") => led[t].offs[Closings] = n)
         /\ \E x \in Rows(Rej(t)) :
              LET r == IF On("closing first") THEN RetryRow(c, t, Rej(t), n, n + 1, {x}, n + 1)
                       ELSE RetryRow(c, t, t, n, n + 1, {x}, 0)
              IN  /\ LastOf(t, x) <= 0 /\ Verdict(t, x, tab[t].sch, FALSE) = "row"
                  /\ Prepare(c, t, r, Trk(c, t).exp)
Follow(c, t) ==
  /\ "retry" \in Faults /\ Idle(c, t) /\ Here(c, t) /\ UNCHANGED <<World, Tabs, ghost>>
  /\ LET n == led[t].offs[Closings]
         q == led[Rej(t)].offs[Closings]
         to == IF On("unfinished first") THEN n + 1 ELSE q
         f == CHOOSE f \in Closed(t) : Number(f) = to
         x == CHOOSE x \in f.rows : TRUE
         row == IF LastOf(t, x) # to THEN RetryRow(c, t, t, n, to, {}, 0)
                ELSE IF Verdict(t, x, tab[t].sch, FALSE) = "row"
                THEN RetryRow(c, t, t, n, to, {x}, 0)
                ELSE RetryRow(c, t, Rej(t), q, q + 1, {x}, -(q + 1))
     IN  n < q /\ Prepare(c, t, row, Trk(c, t).exp)
(* Judged when a commit has landed; not where strangers rolled back, which must be noticed.      *)
Doubled(k) == \E S \in {Live(k)} : \E f, g \in S : f.n < g.n /\ f.rows \intersect g.rows # {}
Harm(t) ==
  (IF Doubled(t) \/ Doubled(Rej(t)) THEN {"I1"} ELSE {}) \union
  (IF {t, Q} \intersect ghost.rolled # {} THEN {}
   ELSE (IF led[t].is /\ Lost(t) \union (Followed(t) \ Rows(t)) # {} THEN {"I2"} ELSE {}) \union
        (IF \E x \in Rows(t) \ Followed(t) : Offset(x) >= led[t].offs[Key[Source(x)]]
         THEN {"I3"} ELSE {}) \union
        (IF (Rows(t) \intersect Rows(Rej(t))) \ Followed(t) # {} THEN {"I11"} ELSE {}))
Steady(p) == [ghost EXCEPT !.rolled = @ \ {p}, !.told = @ \ {p}, !.window = @ \ {p}]
Again(m, T, L) == [m EXCEPT !.base = T.head, !.n = T.n,
  !.led = IF m.hand THEN [L EXCEPT !.recent = @ \union {<<m.row.id, m.row.att>>}]
          ELSE Landed(L, m.row, m.led)]
Lands(m, p, T, r, L) ==
  \E k \in {r.k} : \E t \in {For[k]}, calm \in {p \notin ghost.window},
     new \in {[m.led EXCEPT !.last = T.n + 1, !.back = FALSE, !.wit = "agreed"]} :
  LET file == [k |-> k, att |-> r.att, n |-> T.n + 1, rows |-> r.rows, num |-> r.num]
      files == {f \in T.files : f.n \notin m.gone} \union (IF r.rows = {} THEN {} ELSE {file})
      sought == m.hand /\ m.led.seg > L.seg
      back == ~sought /\ (p \in ghost.told \/ \E i \in Keys : new.offs[i] < L.offs[i])
      stale == new.gen < L.gen \/ (new.gen = L.gen /\ new.own # L.own)
      harm == IF ~calm THEN {} ELSE (IF back THEN {"I3"} ELSE {})
        \union (IF stale THEN {"I4"} ELSE {})
        \union (IF \E e \in L.recent : e[1] = r.id THEN {"I5"} ELSE {})
        \union (IF <<k, r.att>> \in ghost.aborted THEN {"I6"} ELSE {})
  IN  /\ Table(p, Moved(T, k, files)) /\ led' = [led EXCEPT ![k] = new]
      /\ ghost' = IF sought THEN Steady(p) ELSE [ghost EXCEPT !.window = @ \ {p}]
      /\ UNCHANGED <<log, away, store, life>>
      /\ broken' = broken \union harm
           \union UNION {Harm(u)' : u \in IF Shape = "slow" THEN Tables ELSE {t}}
           \union (IF r.rows # {} /\ ~IsRej(k) /\ T.sch # r.sch THEN {"I2"} ELSE {})
Arrives == \E m \in net : \E p \in {At[m.row.k]} : \E T \in {tab[p]}, L \in {led[m.row.k]} :
  IF \/ Matches(m, T) /\ (T.sch = m.row.sch \/ IsRej(m.row.k) \/ ~On("schema"))
     \/ ~On("compare and set")
  THEN Lands(m, p, T, m.row, L)   \* one that is refused stays: it may arrive again
  ELSE Retried(m) /\ net' = (net \ {m}) \union {Again(m, T, L)}
       /\ UNCHANGED <<World, tab, led, store, life, ghost>>
(* What strangers, networks and operators do.                                                     *)
Produce == /\ \E s \in log.live : log.end[s] < N /\ log' = [log EXCEPT !.end[s] = @ + 1]
           /\ UNCHANGED <<Tabs, store, life, away, ghost, broken>>
Foreign == Strike("foreign") /\ \E p \in 1 .. Q :  \* an append, a compaction: not our summary
  /\ tab[p].head # 0 /\ Table(p, Moved(tab[p], 0, tab[p].files))
  /\ Struck(ghost) /\ UNCHANGED <<World, led, store, life>>
Expire == Strike("expire") /\ \E p \in 1 .. Q :   \* all history but the head and what is tagged
  /\ LET T == tab[p]
         kept == {T.head} \union {led[k].last : k \in {k \in Chains : At[k] = p}}
         gone == [par |-> 0, k |-> 0, told |-> FALSE, files |-> {}]
         new == [T EXCEPT !.snaps = [i \in DOMAIN @ |-> IF i \in kept THEN @[i] ELSE gone]]
     IN  new # T /\ Table(p, new) /\ led' = Looked(p, new, FALSE)
  /\ Struck(ghost) /\ UNCHANGED <<World, store, life>>
Rollback == Strike("rollback") /\ \E p \in 1 .. Q : \E i \in 1 .. tab[p].head - 1 :
  /\ tab[p].snaps[i].told /\ Table(p, [tab[p] EXCEPT !.head = i, !.files = tab[p].snaps[i].files])
  /\ led' = Looked(p, tab'[p], TRUE) /\ UNCHANGED <<World, store, life>>
  /\ Struck([ghost EXCEPT !.rolled = @ \union {p}, !.window = @ \union {p}, !.told = @ \ {p}])
Recreate == Strike("recreate") /\ \E t \in Tables :
  /\ tab[t].head # 0 /\ Table(t, [NewTable EXCEPT !.uuid = tab[t].uuid + 1])
  /\ led' = [led EXCEPT ![t] = NoLedger] /\ Struck([Steady(t) EXCEPT !.base[t] = None])
  /\ UNCHANGED <<World, store, life>>
Alter ==   \* the second time back to the former schema: Iceberg gives it its former id
  /\ Strike("alter") /\ \E t \in Tables : Table(t, [tab[t] EXCEPT !.sch = 3 - @])
  /\ Struck(ghost) /\ UNCHANGED <<World, led, store, life>>
Leave == /\ \E p \in 1 .. Q : IF p \in away THEN away' = away \ {p} /\ UNCHANGED ghost
                        ELSE Strike("away") /\ away' = away \union {p} /\ Struck(ghost)
         /\ UNCHANGED <<log, Tabs, store, life, broken>>   \* and come back
Lose == Strike("lose") /\ \E h \in Hosts :
  /\ store[h] # NoStore /\ store' = [store EXCEPT ![h] = NoStore]
  /\ Struck(ghost) /\ UNCHANGED <<World, Tabs, life>>
Orphans == Strike("orphans") /\ \E h \in Hosts : \E r \in Range(store[h].rows) :
  /\ r.rows # {} /\ store[h].own % 10 # r.att \div 100 /\ ~IsLive(r)  \* before they are looked for
  /\ \A m \in net : m.row.k # r.k \/ m.row.att # r.att \/ m.led.own # store[h].own
  /\ <<r.k, r.att>> \notin ghost.gone /\ Struck([ghost EXCEPT !.gone = @ \union {<<r.k, r.att>>}])
  /\ UNCHANGED <<World, Tabs, store, life>>
Retention == Strike("retention") /\ \E s \in log.live :
  /\ log.low[s] < log.end[s] /\ log' = [log EXCEPT !.low[s] = @ + 1]
  /\ Struck(ghost) /\ UNCHANGED <<Tabs, store, life, away, broken>>
Retopic == \E s \in log.live :  \* deleted and created again: another id, with a consent
  /\ s + 1 \in Sources \ log.live /\ log' = [log EXCEPT !.live = (@ \ {s}) \union {s + 1}]
  /\ Strike("retopic") /\ Struck(ghost) /\ UNCHANGED <<Tabs, store, life, away, broken>>
If(name, S) == IF name \in Faults THEN S ELSE {}   \* what is empty costs TLC nothing
Next == \/ \E c \in Lives : Start(c) \/ Epoch(c) \/ \E t \in Tables : Warm(c, t)
        \/ \E c \in Lives, t \in Tables : Open(c, t) \/ Begin(c, t) \/ Anchor(c, t) \/ Turn(c, t)
        \/ \E c \in Lives, t \in Tables, s \in If("retention", Sources) : Consent(c, t, s)
        \/ \E c \in Lives, t \in If("park", Tables) : Park(c, t)
        \/ \E c \in Lives, t \in If("replay", Tables) : Replay(c, t)
        \/ \E c \in Lives, t \in If("seek", Tables) : Seek(c, t) \/ Sought(c, t)
        \/ \E c \in Lives, t \in If("retry", Tables) : Close(c, t) \/ Follow(c, t)
        \/ Arrives \/ Produce \/ Foreign \/ Expire \/ Rollback \/ Recreate \/ Alter \/ Leave \/ Lose
        \/ Orphans \/ Retention \/ Retopic
Spec == Init /\ [][Next]_vars
Held(i) == i \notin broken     I1_NoDup == Held("I1")     I2_NoLoss == Held("I2")
I3_Monotone == Held("I3")     I4_Fenced == Held("I4")     I5_OneIdentity == Held("I5")
I6_FilesLive == Held("I6")     I10_TwoPhases == Held("I10")     I11_Quarantine == Held("I11")
(* A table that does not answer holds up no other: a step is there that brings those on.          *)
I9_FanOut == "away" \in Faults => \A c \in Lives, t \in Tables :
  LET stuck == {u \in Tables : u \in away /\ Trk(c, u).st = "in" /\ Trk(c, u).line # <<>>}
  IN  Runs(c) /\ life[c].ep < MaxEpochs /\ Trk(c, t).st = "in" /\ Trk(c, t).line = <<>>
      /\ (\E s \in log.live : Behind(Trk(c, t), s))
      => CanEpoch(c) \/ (On("parking") /\ stuck # {})
         \/ \E u \in Tables \ stuck : Line(c, u) # <<>>
=============================================================================
