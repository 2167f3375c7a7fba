------------------------------- MODULE Shards -------------------------------
(* What shards add to the commit protocol (Penstock.tla): where their chains begin.  A shard is a *)
(* pipeline of its own chain; of one chain all is said there.  Here several begin in one table at *)
(* once, `start: latest`, while the topic gets records and partitions, and while the table itself *)
(* is not there yet: then their quarantine chains hold the beginnings (docs/design/0005).         *)
(* Each shard has two lives, any of which may sleep between two steps, for ever.  Defences named  *)
(* in Off are off: each, taken away, breaks an invariant.                                         *)
EXTENDS Integers, Sequences, FiniteSets
CONSTANTS
  Lives,       \* life -> its shard
  Begins,      \* the partitions that are there from the beginning
  Parts,       \* partition -> the shard that lands it
  MaxRecords,  \* of a partition
  MaxRequests, \* on their way at once
  Bad,         \* <<partition, offset>>: records that are refused, whoever looks
  Missing,     \* is the table to be created?
  Off
VARIABLES
  log,     \* partition -> its end; -1: it is not there yet
  own,     \* the table: [head, led, there]; led: shard -> partition -> position
  quar,    \* the quarantine table, the same; always there
  rows,    \* partition -> the offsets that are rows
  net,     \* requests on their way; the sender goes on without knowing
  life,    \* life -> [ph, log, own, quar]: what it saw
  truth,   \* partition -> where it was decided to begin; none before anything was
  broken
vars == <<log, own, quar, rows, net, life, truth, broken>>
On(d) == d \notin Off
Shard(n) == n % 2     Shards == {0, 1}     All == Parts
Mine(s) == {p \in All : Shard(p) = s}
None == [p \in {} |-> 0]     NoLedger == [none |-> TRUE, at |-> None]
Ledger(at) == [none |-> FALSE, at |-> at]
Fill(at, more) ==
  [p \in DOMAIN at \union DOMAIN more |-> IF p \in DOMAIN at THEN at[p] ELSE more[p]]
Idle == [ph |-> "idle"]
Known(led) == UNION {DOMAIN led[s].at : s \in Shards}     \* by any sibling
Pick(f, S) == [p \in DOMAIN f \intersect S |-> f[p]]
Init ==
  /\ log = [p \in All |-> IF p \in Begins THEN 0 ELSE -1]
  /\ own = [head |-> 0, led |-> [s \in Shards |-> NoLedger], there |-> ~Missing]
  /\ quar = [head |-> 0, led |-> [s \in Shards |-> NoLedger], there |-> TRUE]
  /\ rows = [p \in All |-> {}] /\ net = {} /\ broken = {}
  /\ life = [c \in Lives |-> Idle]
  /\ truth = None
(* Others: records are produced, the topic is given a partition.                                  *)
Produce == /\ \E p \in All : log[p] \in 0 .. MaxRecords - 1 /\ log' = [log EXCEPT ![p] = @ + 1]
           /\ UNCHANGED <<own, quar, rows, net, life, truth, broken>>
Grow == /\ \E p \in All : log[p] = -1 /\ log' = [log EXCEPT ![p] = 0]
        /\ UNCHANGED <<own, quar, rows, net, life, truth, broken>>
(* A life lists the topic, reads both tables, and goes by what it saw.                            *)
Look(c) == /\ life' = [life EXCEPT ![c] =
                         [ph |-> "looked", log |-> log, own |-> own, quar |-> quar]]
           /\ UNCHANGED <<log, own, quar, rows, net, truth, broken>>
Saw(c) == IF life[c].own.there THEN life[c].own ELSE life[c].quar
Where(c) == IF life[c].own.there THEN "own" ELSE "quar"
Listed(c) == {p \in All : life[c].log[p] >= 0}
Fresh(c) == LET known == Known(Saw(c).led) IN
  IF On("all beginnings") THEN Listed(c) \ known
  ELSE (Listed(c) \intersect Mine(Shard(c))) \ DOMAIN Saw(c).led[Shard(c)].at
Lacks(c) == (Listed(c) \intersect Mine(Shard(c))) \ DOMAIN Saw(c).led[Shard(c)].at # {}
(* A topic that a sibling's ledger has was decided on: what was added to it since begins at 0.    *)
Chosen(c) ==
  LET led == Saw(c).led
      known == IF On("all beginnings") THEN Known(led) ELSE DOMAIN led[Shard(c)].at
  IN  [p \in Fresh(c) |-> IF known # {} /\ On("added at 0") THEN 0 ELSE life[c].log[p]]
Send(c, request) == /\ Cardinality(net) < MaxRequests
                    /\ net' = net \union {request} /\ life' = [life EXCEPT ![c] = Idle]
                    /\ UNCHANGED <<log, own, quar, rows, truth, broken>>
Begin(c) ==
  /\ life[c].ph = "looked" /\ Lacks(c) /\ Fresh(c) # {}
  /\ Send(c, [act |-> "begin", in |-> Where(c), by |-> Shard(c), base |-> Saw(c).head,
              at |-> Chosen(c)])
Ready(c) == life[c].ph = "looked" /\ ~Lacks(c)
Position(c, p) == Saw(c).led[Shard(c)].at[p]
Ahead(c) == {p \in DOMAIN Saw(c).led[Shard(c)].at : life[c].log[p] > Position(c, p)}
Range(c, p) == Position(c, p) .. life[c].log[p] - 1
Refused(p) == IF p \in Bad THEN {0} ELSE {}
Land(c) ==   \* rows, but for what is refused
  /\ Ready(c) /\ life[c].own.there
  /\ \E p \in Ahead(c) : Send(c,
       [act |-> "land", in |-> "own", by |-> Shard(c), base |-> life[c].own.head, p |-> p,
        offs |-> Range(c, p) \ Refused(p), to |-> life[c].log[p]])
Reject(c) ==   \* none of them fits, and there is no table yet
  /\ Ready(c) /\ ~life[c].own.there
  /\ \E p \in Ahead(c) : /\ Range(c, p) \subseteq Refused(p)
                           /\ Send(c, [act |-> "reject", in |-> "quar", by |-> Shard(c), p |-> p,
                                       base |-> life[c].quar.head, to |-> life[c].log[p]])
Create(c) ==   \* records call for it; all shards begin where their quarantine chains are
  /\ Ready(c) /\ ~life[c].own.there /\ Ahead(c) # {}
  /\ Send(c, [act |-> "create", in |-> "own", by |-> Shard(c),
              led |-> [s \in Shards |-> IF s = Shard(c) \/ On("created with all")
                                         THEN life[c].quar.led[s] ELSE NoLedger]])
(* What arrives: one compare-and-set on the head that was examined.  Positions are only filled in.*)
Table(r) == IF r.in = "own" THEN own ELSE quar
Moved(r, led) == LET t == [Table(r) EXCEPT !.head = @ + 1, !.led = led] IN
  IF r.in = "own" THEN own' = t /\ UNCHANGED quar ELSE quar' = t /\ UNCHANGED own
Breaks(name, bad) == IF bad THEN {name} ELSE {}
Decided(at) == \* the first beginning decides on its topic: what it did not list begins at 0
  IF truth # None THEN truth ELSE [p \in All |-> IF p \in DOMAIN at THEN at[p] ELSE 0]
Begun(r) ==
  /\ r.act = "begin"
  /\ r.base = Table(r).head \/ ~On("examined")
  /\ LET led == Table(r).led
         to(s) == IF On("all beginnings") THEN Pick(r.at, Mine(s))
                  ELSE IF s = r.by THEN r.at ELSE None
         after == [s \in Shards |->
           IF s = r.by \/ On("all beginnings") THEN Ledger(Fill(led[s].at, to(s))) ELSE led[s]]
         new == [p \in Known(after) \ Known(led) |-> after[Shard(p)].at[p]]
         decided == Decided(new)
     IN  /\ Moved(r, after) /\ truth' = decided
         /\ broken' = broken
              \union Breaks("I2", \E p \in DOMAIN new : new[p] > decided[p])
              \union Breaks("I1", \E p \in DOMAIN new : new[p] < decided[p])
  /\ UNCHANGED <<log, rows, life>>
Landed(r) ==
  /\ r.act = "land" /\ r.base = own.head
  /\ Moved(r, [own.led EXCEPT ![r.by].at[r.p] = r.to])
  /\ rows' = [rows EXCEPT ![r.p] = @ \union r.offs]
  /\ broken' = broken \union Breaks("I1", r.offs \intersect rows[r.p] # {})
  /\ UNCHANGED <<log, life, truth>>
Rejected(r) ==
  /\ r.act = "reject" /\ r.base = quar.head
  /\ Moved(r, [quar.led EXCEPT ![r.by].at[r.p] = r.to])
  /\ UNCHANGED <<log, rows, life, truth, broken>>
Created(r) ==
  /\ r.act = "create" /\ ~own.there
  /\ own' = [own EXCEPT !.there = TRUE, !.head = @ + 1, !.led = r.led]
  /\ UNCHANGED <<log, quar, rows, life, truth, broken>>
Alive(q) ==   \* may it still land?
  IF q.act = "create" THEN ~own'.there
  ELSE q.base = (IF q.in = "own" THEN own'.head ELSE quar'.head) \/ ~On("examined")
Arrives == \E r \in net : /\ Begun(r) \/ Landed(r) \/ Rejected(r) \/ Created(r)
                          /\ net' = {q \in net \ {r} : Alive(q)}
Next == \/ Produce \/ Grow \/ Arrives
        \/ \E c \in Lives : Look(c) \/ Begin(c) \/ Land(c) \/ Reject(c) \/ Create(c)
Spec == Init /\ [][Next]_vars
(* I1: nothing is landed twice, nor what lies before the beginning that was written first.  I2:   *)
(* nothing behind it is passed over.                                                              *)
Below(p) == LET s == Shard(p)
                at(led) == IF p \in DOMAIN led[s].at THEN led[s].at[p] ELSE 0
            IN  IF own.there THEN at(own.led) ELSE at(quar.led)
I1_NoDuplicate == "I1" \notin broken
I2_NoLoss == /\ "I2" \notin broken
             /\ truth # None => \A p \in All :
                  \A o \in truth[p] .. Below(p) - 1 : o \in rows[p] \union Refused(p)
=============================================================================
