------------------------------- MODULE Keyed --------------------------------
(* What a keyed table adds to the commit protocol (Penstock.tla): net changes are prepared without*)
(* looking at the table; which rows they replace is resolved in the turn that commits them, on the*)
(* state that was examined, and lands with the data and the ledger in one compare-and-set.  One   *)
(* table, one chain.  Lives may be killed, or be zombies, at any moment; requests arrive late,    *)
(* never, or twice.  Defences named in Off are off: each, taken away, breaks an invariant.        *)
(* A record is 10 * partition + offset; a row of others has a number from 90 on.                  *)
EXTENDS Integers, Sequences, FiniteSets
CONSTANTS
  Shape,       \* what is in the log: see Log
  Lives, Elder,  \* coordinators 1 .. n; those of a release that knows no keyed ledger
  Faults, MaxFaults, Off, MaxEpochs, MaxWaiting, \* epochs of a life; commits that wait
  Copies       \* are touched files replaced by copies without the rows that go?
VARIABLES
  log,    \* partition -> how many records it has by now; -1: it is not there yet
  tab,    \* [uuid, head, n, files, snaps]: a file is [n, rows, dead, by, eq]: see Live
  led,    \* the ledger: [offs, recent, gen, own, last, changed, grown]
  net,    \* requests on their way
  store,  \* [gen, own, rows]: the pending store     saved: a backup of it
  saved,
  life,   \* coordinator -> [ph, gen, ep, st, exp, uuid, line, known, grown]
  quar,   \* refused records
  cache,  \* keys of files on the local disk: [uuid, n, rows]
  ghost,  \* [truth: key -> the record its row is of, or 0; purged: records whose row was; struck]
  broken
vars == <<log, tab, led, net, store, saved, life, quar, cache, ghost, broken>>
On(d) == d \notin Off     Strike(name) == name \in Faults /\ ghost.struck < MaxFaults
Past  == "rollback" \in Faults
Range(f) == {f[i] : i \in DOMAIN f}     Max2(x, y) == IF x < y THEN y ELSE x
Max(S) == CHOOSE x \in S : \A y \in S : y <= x
Keys == 1 .. 2     Offset(x) == x % 10     Part(x) == x \div 10
(* The log: per partition its records: what, key, former key or sequence.                         *)
Log == CASE
  Shape = "puts"     -> << <<<<"put", 1, 0>>, <<"put", 2, 0>>, <<"put", 1, 0>>>> >>
  [] Shape = "dels"  -> << <<<<"put", 1, 0>>, <<"del", 1, 0>>, <<"put", 2, 0>>>> >>
  [] Shape = "moves" -> << <<<<"put", 1, 0>>, <<"move", 2, 1>>, <<"put", 2, 0>>>> >>
  [] Shape = "slices"  -> << <<<<"put", 1, 0>>>>,
                             <<<<"put", 2, 0>>, <<"put", 1, 0>>, <<"del", 2, 0>>>> >>
  [] Shape = "late"  -> << <<<<"put", 1, 2>>, <<"put", 1, 1>>, <<"put", 2, 1>>>> >>
  [] Shape = "erased" -> << <<<<"put", 1, 1>>, <<"del", 1, 3>>, <<"put", 1, 2>>>> >>
  [] Shape = "purged" -> << <<<<"put", 1, 1>>, <<"del", 1, 2>>, <<"put", 1, 3>>>> >>
  [] Shape = "bad"   -> << <<<<"put", 1, 0>>, <<"bad", 1, 0>>, <<"put", 1, 0>>>> >>
  [] Shape = "gone"  -> << <<<<"put", 1, 0>>, <<"bad", 1, 0>>, <<"del", 1, 0>>>> >>
  [] Shape = "apart" -> << <<<<"put", 1, 0>>, <<"bad", 1, 0>>>>, <<<<"bad", 1, 0>>>> >>
  [] Shape = "tried" -> << <<<<"put", 1, 2>>, <<"bad", 1, 1>>>>, <<<<"bad", 1, 3>>>> >>
  [] Shape = "fill"  -> << <<<<"put", 1, 0>>, <<"fill", 1, 0>>>> >>
  [] Shape = "retopic" -> << <<<<"put", 1, 0>>, <<"put", 1, 0>>>>, <<<<"put", 1, 0>>>> >>
  [] Shape = "grown" -> << <<<<"put", 1, 0>>, <<"put", 1, 0>>>>, <<<<"put", 1, 0>>>> >>
  [] Shape = "moved" -> << <<<<"put", 1, 0>>>>, <<<<"put", 2, 0>>, <<"put", 1, 0>>>>,
                           <<<<"put", 2, 0>>>> >>
Grows == Shape \in {"grown", "moved"}     Added == IF Shape = "moved" THEN 3 ELSE 2
Parts == DOMAIN Log     What(x) == Log[Part(x)][Offset(x) + 1]
Name == [p \in Parts |-> IF Shape = "retopic" THEN 1 ELSE p]   \* rows know a topic's name alone
Order(x) == IF Shape \in {"late", "erased", "purged", "tried"} /\ x < 90 THEN What(x)[3] ELSE 0
Soft == Shape \in {"erased", "purged"}   \* deletes bring a row, which knows their sequence
Erased(x) == Soft /\ x < 90 /\ What(x)[1] = "del"
Rank(x) == IF x >= 90 THEN 0 ELSE 1000 * Order(x) + x    \* later in the fold's order
Refused(x) == What(x)[1] = "bad" \/ (What(x)[1] = "fill" /\ On("no verdict by the head"))
Halves(x) ==   \* the changes of a record: a row for a key, or none
  LET w == What(x)
      c == [k |-> w[2], at |-> x, counts |-> TRUE,
            up |-> w[1] # "del" \/ (Soft /\ On("deletes keep their sequence"))]
  IN  IF w[1] # "move" THEN {c}
      ELSE {c, [k |-> w[3], at |-> x, up |-> FALSE, counts |-> ~On("half counts")]}
Changes(X) == UNION {Halves(x) : x \in {x \in X : ~Refused(x)}}
Span(from, to) == UNION {{10 * p + o : o \in from[p] .. to[p] - 1} : p \in Parts}
Zero == [p \in Parts |-> 0]
(* A file holds at most one row a key, so that the key is its position.  `dead`: rows that marks  *)
(* name, in a mark file that snapshot `by` wrote; `eq`: rows that equality deletes of others hit. *)
RowsOf(f) == {r \in f.rows : r[1] \notin f.dead}
Live(T) == UNION {{<<r[1], r[2], f.n>> : r \in {r \in RowsOf(f) : r[1] \notin f.eq}}
                    : f \in T.files}
NewFile(n, rows) == [n |-> n, rows |-> rows, dead |-> {}, by |-> 0, eq |-> {}]
NewTable == [uuid |-> 1, head |-> 0, n |-> 0, files |-> {}, snaps |-> <<>>]
NewLedger == [offs |-> Zero, recent |-> {}, gen |-> 0, own |-> 0, last |-> 0, changed |-> 0,
             grown |-> <<>>]
Moved(T, own, files) ==
  [T EXCEPT !.head = T.n + 1, !.n = @ + 1, !.files = files, !.snaps = IF ~Past THEN @
     ELSE Append(@, [par |-> T.head, own |-> own, kept |-> TRUE, files |-> files])]
RECURSIVE Newest(_, _)   \* the newest own snapshot; 0: none; -1: cut off by expiry
Newest(snaps, i) == IF i = 0 THEN 0 ELSE IF ~snaps[i].kept THEN -1
                    ELSE IF snaps[i].own THEN i ELSE Newest(snaps, snaps[i].par)
Seen(T, L) ==   \* third witness: an entry of the newest commit that changed rows, data or marks
  IF ~Past THEN "agreed" ELSE LET i == Newest(T.snaps, T.head) IN
  CASE i = L.last -> "agreed"     [] i >= 0 -> "rolled back"
    [] \E f \in T.files : f.n = L.changed \/ f.by = L.changed -> "agreed"
    [] OTHER -> "uncertain"
(* Phase one: an epoch's net changes, one a key.  With slices, partition 2 is cut in two behind   *)
(* its first record: slice A reads before, slice B behind it and all of partition 1.  An attempt  *)
(* of A may stop early: then what B read of partition 2 is dropped.  A slice writes the rows of   *)
(* what it netted; of those that a change of another slice supersedes (over) none may stay.       *)
(* Growth moves keys, to a partition that is added and between those that were there.  Where all  *)
(* end when it is found is in the ledger before it is read: what lies before goes before what is  *)
(* behind, whatever the partitions.  Producers that have not heard write behind, in no order.     *)
Before(x, grown) == Offset(x) < grown[Part(x)]
Known(x, y, grown) ==   \* is the order of two records of one key known?
  \/ ~Grows \/ x >= 90 \/ Part(x) = Part(y)
  \/ (grown # <<>> /\ Before(x, grown) # Before(y, grown))
Clash(C, grown) == \E c, d \in C : c.k = d.k /\ ~Known(c.at, d.at, grown)
Last(C) == {c \in C : \A d \in C : d.k = c.k => Rank(d.at) <= Rank(c.at)}
Collapsed(C) == IF On("order of the fold") THEN {Last(C)}   \* else in whatever order they come
                ELSE {D \in SUBSET C : \A k \in {c.k : c \in C} :
                                          Cardinality({d \in D : d.k = k}) = 1}
Netted(C) == IF On("net by partition") THEN UNION {Last({c \in C : Part(c.at) = p}) : p \in Parts}
             ELSE Last(C)
Slices(from, ends) ==   \* [to, net, over] of an epoch: what its accepted attempts give
  IF Shape # "slices" \/ from[2] >= 1 \/ ends[2] <= 1
  THEN {[to |-> ends, net |-> D, over |-> {}] : D \in Collapsed(Changes(Span(from, ends)))}
  ELSE UNION {
    LET first(n) == {c \in Changes(Span(from, ends)) : c.at \in 20 + from[2] .. 19 + n}
        rest == Netted(Changes(Span([from EXCEPT ![2] = 1], ends)))
        cut == IF a < 1 THEN {c \in rest : Part(c.at) = 1} ELSE rest
        to == IF a < 1 THEN [ends EXCEPT ![2] = a] ELSE ends
        all(at) == cut \union {c \in first(1) : Offset(c.at) < at[c.k]}
    IN  UNION {{[to |-> to, net |-> D, over |-> {c \in all(at) \ D : c.up}] :
                 D \in Collapsed(all(at))} :
               at \in [Keys -> {a, IF On("accepted attempt") THEN a ELSE 1 - a}]} : a \in {0, 1}}
Counted(C) == Cardinality({c \in C : c.counts})
Balanced(from, to) ==   \* examined = landed + superseded + quarantined
  Cardinality(Span(from, to)) =
    Counted(Changes(Span(from, to))) + Cardinality({x \in Span(from, to) : Refused(x)})
(* Phase two: which rows the changes of a commit replace, on one state exactly.                   *)
Touched(C) == {c.k : c \in {c \in C : c.up \/ On("touched keys")}}
OneTopic(r) == \A p, q \in Parts : p # q /\ Name[p] = Name[q] =>   \* this commit counts, too
  Max2(led.offs[p], r.to[p]) = 0 \/ Max2(led.offs[q], r.to[q]) = 0
Loses(c, T, r) ==   \* to a row that is later: the row is its own witness
  \E x \in {row[2] : row \in {row \in UNION {RowsOf(f) : f \in T.files} : row[1] = c.k}} : x < 90 /\
    \/ Order(x) > Order(c.at)
    \/ /\ Order(x) = Order(c.at) /\ Name[Part(x)] = Name[Part(c.at)]
       /\ Offset(x) > Offset(c.at) /\ On("own witness")
       /\ (OneTopic(r) \/ ~On("one topic of a name"))
Keyed(c) == IF c \in Elder THEN {} ELSE Keys
Look(T, f) ==   \* the keys of a file, from the disk if they are known there
  LET there == {d \in cache : d.n = f.n /\ (d.uuid = T.uuid \/ ~On("identity of a file"))}
  IN  IF there = {} THEN f.rows ELSE (CHOOSE d \in there : TRUE).rows
Found(T, f, ks) == ({r[1] : r \in Look(T, f)} \intersect ks) \ f.dead
Resolve(c, r, T) ==   \* [n, was, dead]: for each file that is touched what it has dead after it
  LET late == {d \in r.net : Loses(d, T, r)}
      ks == Touched(IF On("late in its own file") THEN r.net \ late ELSE r.net) \intersect Keyed(c)
      again(f) == {g \in life[c].known : g.n = f.n /\ g.id = r.id /\
                     (g.was = f.dead \/ ~IF Copies THEN On("copied again") ELSE On("delete state"))}
      one(f) == IF again(f) # {} THEN CHOOSE g \in again(f) : TRUE
                ELSE [n |-> f.n, id |-> r.id, was |-> f.dead,
                      dead |-> f.dead \union Found(T, f, ks)]
  IN  {g \in {one(f) : f \in T.files} : g.dead # g.was}
Copied(T, marks) ==   \* what stays of the files that are touched, all in one; as it was looked up
  IF ~Copies THEN {} ELSE UNION {UNION {{x \in f.rows : x[1] \notin g.dead \/
       (x[1] \in g.was /\ ~On("copies of live rows"))} : g \in {g \in marks : g.n = f.n}}
     : f \in T.files}
Met(r, Is(_, _)) == \E c \in r.net : \E row \in Live(tab) : row[1] = c.k /\ Is(row[2], c.at)
Unordered(r) == Met(r, LAMBDA x, at : ~Known(x, at, led.grown))
Losers(r, T) == IF On("late in its own file") THEN {d.k : d \in {d \in r.net : Loses(d, T, r)}}
                   ELSE {}
Outgrown(r) ==   \* it was planned by who had not heard of the growth, and goes beyond its ends
  r.grown # led.grown /\ \E p \in Parts : r.to[p] > led.grown[p]
(* Decide: as in Penstock.tla, for one chain of one line of claims.                               *)
Fences(c) == led.gen > life[c].gen \/ (led.gen = life[c].gen /\ led.own # c /\ led.own # 0)
Decide(c, r) ==
  LET P == {p \in Parts : r.from[p] < r.to[p]}
      mine == {e \in led.recent : e[1] = r.id}
  IN  CASE mine # {} -> IF <<r.id, r.att>> \in mine THEN "ours" ELSE "theirs"
        [] P # {} /\ \A p \in P : led.offs[p] >= r.to[p] -> "theirs"
        [] Fences(c) -> "fenced"
        [] \A p \in P : led.offs[p] = r.from[p] -> "commit"
        [] OTHER -> "superseded"
NoLife == [ph |-> "new", gen |-> 0, ep |-> 0, st |-> "aside", exp |-> Zero, uuid |-> 0,
           line |-> <<>>, known |-> {}, grown |-> <<>>]
NoStore == [gen |-> 0, own |-> 0, rows |-> <<>>]
Init ==
  /\ log = [p \in Parts |-> IF p = Added /\ (Grows \/ Shape = "retopic") THEN -1
                          ELSE IF Grows THEN 1 ELSE Len(Log[p])]
  /\ tab = NewTable /\ led = NewLedger /\ net = {} /\ store = NoStore /\ saved = NoStore
  /\ life = [c \in Lives |-> NoLife] /\ quar = {} /\ cache = {} /\ broken = {}
  /\ ghost = [truth |-> [k \in Keys |-> 0], purged |-> {}, struck |-> 0]
Runs(c)  == life[c].ph = "run"     Holds(c) == store.own = c /\ store.gen = life[c].gen
Exit(c)  == life' = [life EXCEPT ![c] = [NoLife EXCEPT !.ph = "out"]]
Aside(c, st) == life' = [life EXCEPT ![c].st = st, ![c].line = <<>>, ![c].known = {}]
World == <<log, saved, quar, cache, ghost, broken>>
Start(c) ==
  /\ life[c].ph = "new" /\ \A d \in 1 .. c - 1 : life[d].ph # "new"
  /\ UNCHANGED <<World, tab, led, net>>
  /\ IF c \in Elder /\ On("ledger version") THEN Exit(c) /\ UNCHANGED store
     ELSE LET gen == Max2(store.gen, led.gen) + 1
          IN  /\ store' = [store EXCEPT !.gen = gen, !.own = c]
              /\ life' = [life EXCEPT ![c].ph = "run", ![c].gen = gen]
Fence(own) == \* moves the head alone, so that no request in flight can land
  /\ tab' = Moved(tab, own, tab.files) /\ net' = {}
  /\ led' = IF own THEN [led EXCEPT !.last = tab.n + 1] ELSE led
Open(c) ==
  /\ Runs(c) /\ life[c].st = "aside" /\ store.rows = <<>>
  /\ UNCHANGED <<World, tab, led, net, store>>
  /\ IF Fences(c) \/ ~Holds(c) THEN Exit(c)
     ELSE IF Seen(tab, led) # "agreed" \/ (\E f \in tab.files : f.eq # {}) THEN Aside(c, "stop")
     ELSE life' = [life EXCEPT ![c].st = "in", ![c].exp = led.offs, ![c].uuid = tab.uuid,
                               ![c].grown = led.grown]
Begin(c) ==   \* a partition is found: where all end then is written down
  /\ Grows /\ Runs(c) /\ life[c].st = "in" /\ life[c].grown = <<>> /\ log[Added] >= 0
  /\ life[c].uuid = tab.uuid /\ UNCHANGED <<World, store>>
  /\ IF Fences(c) THEN Exit(c) /\ UNCHANGED <<tab, led, net>>
     ELSE \E ends \in {IF led.grown = <<>> THEN [log EXCEPT ![Added] = 0] ELSE led.grown} :
          /\ life' = [life EXCEPT ![c].grown = ends]
          /\ tab' = Moved(tab, TRUE, tab.files) /\ net' = {}
          /\ led' = [led EXCEPT !.grown = ends, !.last = tab.n + 1, !.gen = life[c].gen, !.own = c]
RowOf(c, from, to, changes, id) ==
  LET r == [from |-> from, to |-> to, net |-> changes, uuid |-> tab.uuid, id |-> id,
            att |-> 10 * c + life[c].ep + 1, kept |-> FALSE, marks |-> {},
            over |-> {}, grown |-> life[c].grown, ins |-> FALSE]
      early == ~On("resolved at the commit") \/ (life[c].line # <<>> /\ ~On("behind the former"))
  IN  IF early THEN [r EXCEPT !.kept = TRUE, !.marks = Resolve(c, r, tab)] ELSE r
Id(from, to) == 1000 * tab.uuid + 100 * from[1] + to[1] +
                (IF 2 \in Parts THEN 10000 * (10 * from[2] + to[2]) ELSE 0) +
               IF 3 \in Parts THEN 250000 * (from[3] + to[3]) ELSE 0
Ready(c) == Runs(c) /\ life[c].st = "in" /\ life[c].ep < MaxEpochs /\ Len(life[c].line) < MaxWaiting
Prepared(c, r, to) ==
  IF ~Holds(c) THEN Exit(c) /\ UNCHANGED store
  ELSE /\ life' = [life EXCEPT ![c].ep = @ + 1, ![c].exp = to, ![c].line = Append(@, r)]
       /\ store' = [store EXCEPT !.rows = Append(@, r)]
Epoch(c) ==
  /\ Ready(c) /\ life[c].uuid = tab.uuid /\ UNCHANGED <<log, saved, cache, ghost, tab, led, net>>
  /\ \E ends \in [Parts -> 0 .. 3] :
       /\ \A p \in Parts : ends[p] \in life[c].exp[p] .. Max2(log[p], life[c].exp[p])
       /\ ends # life[c].exp
       /\ IF ~Grows THEN TRUE ELSE IF life[c].grown = <<>> THEN ends[Added] = 0 ELSE
            (\E p \in Parts : life[c].exp[p] < life[c].grown[p]) /\ On("growth barrier") =>
              \A p \in IF On("former behind the ends") THEN Parts ELSE {Added} :
                ends[p] <= life[c].grown[p]   \* all first to where they ended
       /\ \E e \in Slices(life[c].exp, ends) :
            /\ ~Clash(Changes(Span(life[c].exp, e.to)), life[c].grown)
            /\ Prepared(c, [RowOf(c, life[c].exp, e.to, e.net, Id(life[c].exp, e.to))
                              EXCEPT !.over = e.over], e.to)
            /\ quar' = quar \union {x \in Span(life[c].exp, e.to) : Refused(x)}
            /\ broken' = IF Balanced(life[c].exp, e.to) THEN broken ELSE broken \union {"K5"}
Retry(c) ==   \* a person lets a refused record land after all, if it still wins; `ins`: also where
              \* its key has no row any more
  /\ Strike("retry") /\ Ready(c) /\ life[c].line = <<>> /\ life[c].uuid = tab.uuid
  /\ UNCHANGED <<log, saved, quar, cache, broken, tab, led, net>>
  /\ \E x \in {x \in quar : Offset(x) < led.offs[Part(x)]} : \E ins \in BOOLEAN :
       LET change == [k |-> What(x)[2], at |-> x, up |-> TRUE, counts |-> TRUE]
       IN  Prepared(c, [RowOf(c, Zero, Zero, {change}, 900000 + x) EXCEPT !.ins = ins],
                    life[c].exp)
  /\ ghost' = [ghost EXCEPT !.struck = @ + 1]
Settle(c, r, ok) ==
  IF ~Holds(c) THEN Exit(c) /\ UNCHANGED store
  ELSE /\ store' = [store EXCEPT !.rows = SelectSeq(@, LAMBDA x : x.att # r.att)]
       /\ IF life[c].st = "in" /\ ok
          THEN life' = [life EXCEPT ![c].line = Tail(@), ![c].known = {}] ELSE Aside(c, "aside")
Line(c) == IF life[c].st = "in" THEN life[c].line
           ELSE IF life[c].st = "aside" THEN store.rows ELSE <<>>
Unplaced(x, y) == x >= 90 \/ (Order(x) = Order(y) /\ Part(x) # Part(y))
Undecided(r) == r.id >= 900000 /\ \E d \in r.net :   \* a retry that nothing says the order of
  \E rows \in {{row \in Live(tab) : row[1] = d.k}} :
    \/ rows = {} /\ ~r.ins /\ On("absent keys are asked for")
    \/ (\E row \in rows : Unplaced(row[2], d.at)) /\ On("retries in a known order")
Turn(c) == /\ Runs(c) /\ Line(c) # <<>> /\ UNCHANGED <<log, saved, ghost>>
  /\ \E r \in {Line(c)[1]} : \E wit \in {Seen(tab, led)} :
     LET again == \E g \in life[c].known : g.id = r.id
         d == IF On("decide first") \/ again THEN Decide(c, r) ELSE "commit"
         marks == IF r.kept THEN {g \in r.marks : \E f \in tab.files : f.n = g.n}
                  ELSE Resolve(c, r, tab)
         head == IF On("no verdict by the head") THEN {}   \* refused by what the head has not
                 ELSE {e \in r.net : What(e.at)[1] = "fill" /\ \A row \in Live(tab) : row[1] # e.k}
         sent == [row |-> [r EXCEPT !.net = @ \ head, !.kept = FALSE, !.marks = {}],
                  base |-> tab.head, n |-> tab.n, uuid |-> tab.uuid, marks |-> marks,
                  copied |-> Copied(tab, marks),
                  late |-> Losers(r, tab), gen |-> life[c].gen, own |-> c]
         seen == {[uuid |-> tab.uuid, n |-> f.n, rows |-> f.rows] :
                    f \in {f \in tab.files : \A d2 \in cache : d2.n # f.n \/ d2.uuid # tab.uuid}}
         strange == Met(r, LAMBDA x, at : IF ~On("growth") THEN x < 90 /\ Part(x) # Part(at)
                      ELSE ~Known(x, at, IF On("ends of the growth") THEN led.grown ELSE <<9, 0>>))
     IN  IF d = "commit" /\ strange   \* one key in two partitions: a person decides
         THEN /\ Aside(c, "stop") /\ UNCHANGED <<tab, led, net, store, quar, cache>>
              /\ broken' = broken \union IF Unordered(r) THEN {} ELSE {"K8"}
         ELSE IF r.uuid # tab.uuid \/ wit = "uncertain"
            \/ (On("equality deletes at each turn") /\ \E f \in tab.files : f.eq # {})
         THEN Aside(c, "stop") /\ UNCHANGED <<tab, led, net, store, quar, cache, broken>>
         ELSE IF wit = "rolled back"
         THEN Aside(c, "stop") /\ Fence(FALSE) /\ UNCHANGED <<store, quar, cache, broken>>
         ELSE IF d = "fenced"
         THEN Exit(c) /\ UNCHANGED <<tab, led, net, store, quar, cache, broken>>
         ELSE IF d = "ours"
         THEN Settle(c, r, TRUE) /\ UNCHANGED <<tab, led, net, quar, cache, broken>>
         ELSE IF d # "commit" \/ Undecided(r)
            \/ (Outgrown(r) /\ On("growth at the commit"))
         THEN Settle(c, r, FALSE) /\ Fence(TRUE) /\ UNCHANGED <<quar, cache, broken>>
         ELSE /\ sent \notin net /\ net' = net \union {sent}
              /\ life' = [life EXCEPT ![c].known = {g \in @ : g.id # r.id} \union
                   {[n |-> f.n, id |-> r.id, was |-> f.dead, dead |-> f.dead \union
                       UNION {g.dead : g \in {g \in marks : g.n = f.n}}] : f \in tab.files}]
              /\ quar' = quar \union {e.at : e \in head}
              /\ cache' = IF "recreate" \in Faults THEN cache \union seen ELSE cache
              /\ UNCHANGED <<tab, led, store, broken>>
(* The table.  What lands is compared with the truth: the fold of what the ledger says has landed,*)
(* and of what others did.                                                                        *)
RECURSIVE Folded(_, _, _)
Folded(truth, X, grown) ==   \* the records one after another, the highest last
  IF X = {} THEN truth
  ELSE LET x == CHOOSE x \in X : \A y \in X : Rank(x) <= Rank(y)
           before(k) == Grows /\ grown # <<>> /\ Before(x, grown) /\ ~Before(truth[k], grown)
           wins(k) == truth[k] = 0 \/ truth[k] >= 90 \/ (Order(truth[k]) <= Order(x) /\ ~before(k))
           now == [k \in Keys |-> LET C == {c \in Halves(x) : c.k = k} IN
                     IF C = {} \/ ~wins(k) THEN truth[k] ELSE
                     IF Soft \/ \E c \in C : c.up THEN x ELSE 0]
       IN  Folded(IF Refused(x) \/ x \in quar THEN truth ELSE now, X \ {x}, grown)
Again(truth, x, ins) ==   \* a retry lands where the row it meets is older; where none is, if asked
  LET older(y) == y < 90 /\ (Order(y) < Order(x) \/ (~Unplaced(y, x) /\ Rank(y) < Rank(x)))
      lands(y) == IF y = 0 THEN ins ELSE older(y)
  IN  [k \in Keys |-> IF k = What(x)[2] /\ lands(truth[k]) THEN x ELSE truth[k]]
OnHead == IF Copies THEN On("copied on the head") ELSE On("head")
Purges(m) == m.row.id \in 800000 .. 899999
Matches(m) == tab.uuid = m.uuid /\
  IF Purges(m) /\ ~On("purge on the examined state") THEN TRUE
  ELSE IF OnHead THEN tab.head = m.base /\ tab.n = m.n
  ELSE \A p \in Parts : m.row.from[p] < m.row.to[p] => led.offs[p] = m.row.from[p]
Shown(P) == IF On("deletes keep their sequence") THEN P ELSE {x \in P : ~Erased(x[2])}
Pairs(T) == {<<r[1], r[2]>> : r \in Live(T)}
Arrives == \E m \in net : Matches(m) /\ UNCHANGED <<log, store, saved, life, quar, cache>> /\
  LET r == m.row     n == tab.n + 1
      rows == {<<c.k, c.at>> : c \in {c \in r.net : c.up}}
      own == IF Copies THEN {x \in rows : x[1] \notin m.late} \union m.copied ELSE rows
      late == IF Copies THEN {} ELSE m.late   \* a copy of the commit's own file has none
      fresh == IF own = {} THEN {} ELSE {[NewFile(n, own) EXCEPT !.dead = late, !.by =
                                           IF late = {} THEN 0 ELSE n]}
      spare == IF On("superseded rows") \/ r.over = {} THEN {}   \* else none of its rows stays
               ELSE {NewFile(-n, {<<c.k, c.at>> : c \in r.over})}
      of(f) == {g \in m.marks : g.n = f.n}
      marked(f) == [f EXCEPT !.dead = (CHOOSE g \in of(f) : TRUE).dead, !.by = n]
      stays(f) == of(f) = {} \/ (f.dead # {} /\ ~On("former marks"))
      touched == {f \in tab.files : of(f) # {}}
      after == {f \in tab.files : stays(f)} \union
               IF ~Copies THEN {marked(f) : f \in touched}
               ELSE IF On("copied files go") THEN {} ELSE touched
      whole == {f \in after : RowsOf(f) # {}}   \* a file without a live row goes with its marks
      moves == r.id < 900000
      offs == [p \in Parts |-> IF r.from[p] = r.to[p] THEN led.offs[p]
                                ELSE Max2(led.offs[p], r.to[p])]
      truth == IF moves THEN Folded(ghost.truth, Span(led.offs, offs), led.grown)
               ELSE Again(ghost.truth, (CHOOSE c \in r.net : TRUE).at, r.ins)
      changed == rows # {} \/ (m.marks # {} /\ On("marks are changes"))
                 \/ (r.net # {} /\ m.marks = {} /\ On("absent deletes"))   \* it leaves no entry
      T == Moved(tab, TRUE, (IF On("former marks") THEN whole ELSE after) \union fresh \union spare)
      alive(f) == {x[1] : x \in f.rows} \ f.eq
      base == \A g \in m.marks : \E f \in tab.files :
                f.n = g.n /\ f.dead = g.was /\ (g.dead \ g.was) \subseteq alive(f)
      purged == IF ~Purges(m) THEN ghost.purged ELSE ghost.purged \union
        {x[2] : x \in UNION {{x \in f.rows : \E g \in of(f) : x[1] \in g.dead \ g.was} :
                               f \in tab.files}}
      table == {<<k, truth[k]>> : k \in {k \in Keys : truth[k] # 0 /\ truth[k] \notin purged}}
      came == IF On("copied rows are not new") THEN rows ELSE rows \union m.copied
  IN  /\ tab' = T
      /\ net' = {m2 \in net \ {m} : Purges(m2) /\ ~On("purge on the examined state")}
      /\ led' =
           IF Purges(m) /\ ~On("purge keeps the ledger") THEN [NewLedger EXCEPT !.gen = m.gen]
           ELSE [led EXCEPT !.offs = offs, !.gen = m.gen, !.own = m.own,
                   !.last = n, !.recent = @ \union {<<r.id, r.att>>},
                   !.changed = IF changed THEN n ELSE @]
      /\ ghost' = [ghost EXCEPT !.truth = truth, !.purged = purged]
      /\ broken' = broken
           \union (IF Shown(Pairs(T)) = Shown(table) THEN {} ELSE {"K1"})
           \union (IF \E x, y \in Live(T) : x # y /\ x[1] = y[1] THEN {"K2"} ELSE {})
           \union (IF base THEN {} ELSE {"K3"})
           \union (IF came = rows THEN {} ELSE {"K5"})
           \union (IF Unordered(r) THEN {"K8"} ELSE {})
           \union (IF \E c \in r.net : c.at \in quar /\ moves THEN {"K7"} ELSE {})
(* A person has rows of deleted keys removed, beside the lives: marks alone, found on the state   *)
(* that they land on, with the ledger as it is there.  Of a key whose changes of a lower sequence *)
(* may still come, the row stays: purged, it cannot say any more that they are late.              *)
Behind(x) == \A p \in Parts : \A o \in 0 .. Len(Log[p]) - 1 :
  LET y == 10 * p + o IN What(y)[2] = What(x)[2] /\ Order(y) < Order(x) => o < led.offs[p]
Old(x) == Erased(x) /\ (Behind(x) \/ ~On("purge behind the lateness"))
Purge == Soft /\ Strike("purge") /\ \E P \in {{r \in Live(tab) : Old(r[2])}} :
  /\ P # {} /\ Seen(tab, led) = "agreed"
  /\ LET none == [from |-> Zero, to |-> Zero, net |-> {}, uuid |-> tab.uuid, kept |-> FALSE,
                  id |-> 800000 + ghost.struck, att |-> 800000 + ghost.struck, marks |-> {},
                  over |-> {}, grown |-> led.grown]
         marks == {[n |-> f.n, id |-> none.id, was |-> f.dead,
                    dead |-> f.dead \union {r[1] : r \in {r \in P : r[3] = f.n}}] :
                     f \in {f \in tab.files : \E r \in P : r[3] = f.n}}
     IN  net' = net \union {[row |-> none, base |-> tab.head, n |-> tab.n, uuid |-> tab.uuid,
                             marks |-> marks, late |-> {}, copied |-> Copied(tab, marks),
                             gen |-> led.gen, own |-> led.own]}
  /\ ghost' = [ghost EXCEPT !.struck = @ + 1]
  /\ UNCHANGED <<log, saved, life, quar, cache, broken, tab, led, store>>
(* What others do.                                                                                *)
Struck(g) == ghost' = [g EXCEPT !.struck = @ + 1]
Others == <<log, saved, life, quar, cache, broken>>
Theirs(files) == tab' = Moved(tab, FALSE, files) /\ net' = {m \in net : ~OnHead}
Compact == Strike("compact") /\ \E F \in SUBSET tab.files :   \* live rows, in a new file
  /\ (\A f \in F : f.eq = {}) /\ (Cardinality(F) > 1 \/ \E f \in F : f.dead # {})
  /\ LET rows == UNION {RowsOf(f) : f \in F}
     IN  Theirs((tab.files \ F) \union IF rows = {} THEN {} ELSE {NewFile(tab.n + 1, rows)})
  /\ Struck(ghost) /\ UNCHANGED <<Others, led, store>>
ForeignDelete == Strike("delete") /\ \E f \in tab.files : \E r \in RowsOf(f) :
  /\ Theirs((tab.files \ {f}) \union {[f EXCEPT !.dead = @ \union {r[1]}, !.by = tab.n + 1]})
  /\ Struck([ghost EXCEPT !.truth[r[1]] = 0]) /\ UNCHANGED <<Others, led, store>>
ForeignPut == Strike("put") /\ \E k \in Keys :   \* of a key that has no row, or in place of its row
  /\ LET new == NewFile(tab.n + 1, {<<k, 90 + ghost.struck>>})
         rid(f) == IF \E r \in RowsOf(f) : r[1] = k
                   THEN [f EXCEPT !.dead = @ \union {k}, !.by = tab.n + 1] ELSE f
     IN  Theirs({rid(f) : f \in tab.files} \union {new})
  /\ Struck([ghost EXCEPT !.truth[k] = 90 + ghost.struck]) /\ UNCHANGED <<Others, led, store>>
Equality == Strike("equality") /\ \E k \in Keys :   \* an equality delete, which we do not read
  /\ \E f \in tab.files : \E r \in RowsOf(f) : r[1] = k
  /\ Theirs({[f EXCEPT !.eq = IF \E r \in RowsOf(f) : r[1] = k THEN @ \union {k} ELSE @]
              : f \in tab.files})
  /\ Struck([ghost EXCEPT !.truth[k] = 0]) /\ UNCHANGED <<Others, led, store>>
Rollback == Strike("rollback") /\ \E i \in 1 .. tab.head - 1 :   \* of ours, or of theirs alone
  /\ tab.snaps[i].kept /\ tab' = [tab EXCEPT !.head = i, !.files = tab.snaps[i].files]
  /\ LET row(k) == {r[2] : r \in {r \in Live(tab') : r[1] = k}}
         truth == [k \in Keys |-> IF row(k) = {} THEN 0 ELSE CHOOSE x \in row(k) : TRUE]
     IN  Struck(IF i < led.last THEN ghost ELSE [ghost EXCEPT !.truth = truth])
  /\ net' = {} /\ UNCHANGED <<Others, led, store>>
Expire == Strike("expire") /\ LET gone == [par |-> 0, own |-> FALSE, kept |-> FALSE, files |-> {}]
                                  S == [i \in DOMAIN tab.snaps |->
                                          IF i = tab.head THEN tab.snaps[i] ELSE gone]
  IN  /\ S # tab.snaps /\ tab' = [tab EXCEPT !.snaps = S]
      /\ Struck(ghost) /\ UNCHANGED <<Others, led, store, net>>
Recreate == Strike("recreate") /\ tab.head # 0   \* by a person; names of files recur
  /\ tab' = [NewTable EXCEPT !.uuid = tab.uuid + 1] /\ led' = [NewLedger EXCEPT !.gen = led.gen]
  /\ net' = {} /\ store' = [store EXCEPT !.rows = <<>>]
  /\ Struck([ghost EXCEPT !.truth = [k \in Keys |-> 0]]) /\ UNCHANGED Others
Lose == /\ Strike("lose") /\ store # NoStore /\ store' = NoStore
        /\ Struck(ghost) /\ UNCHANGED <<Others, tab, led, net>>
Save == /\ "restore" \in Faults /\ saved = NoStore /\ store.rows # <<>> /\ saved' = store
        /\ UNCHANGED <<log, tab, led, net, store, life, quar, cache, ghost, broken>>
Restore == /\ Strike("restore") /\ saved # NoStore /\ store' = saved
           /\ Struck(ghost) /\ UNCHANGED <<Others, tab, led, net>>
Retopic == /\ Strike("retopic") /\ log[2] = -1
           /\ log' = <<-1, Len(Log[2])>> /\ Struck(ghost)
           /\ UNCHANGED <<saved, life, quar, cache, broken, tab, led, net, store>>
Grow == /\ Grows /\ IF log[Added] = -1 THEN log' = [log EXCEPT ![Added] = 0] ELSE
             \E p \in Parts : log[p] < Len(Log[p]) /\ log' = [log EXCEPT ![p] = @ + 1]
        /\ UNCHANGED <<saved, life, quar, cache, ghost, broken, tab, led, net, store>>
Next == \/ \E c \in Lives : Start(c) \/ Open(c) \/ Begin(c) \/ Epoch(c) \/ Retry(c) \/ Turn(c)
        \/ Arrives \/ Purge \/ Compact \/ ForeignDelete \/ ForeignPut \/ Equality \/ Rollback
        \/ Expire \/ Recreate \/ Lose \/ Save \/ Restore \/ Retopic \/ Grow
Spec == Init /\ [][Next]_vars
Held(i) == i \notin broken     K1_Fold == Held("K1")     K2_OneRow == Held("K2")
K3_Base == Held("K3")     K5_Books == Held("K5")     K7_OneVerdict == Held("K7")
K8_Across == Held("K8")
=============================================================================
