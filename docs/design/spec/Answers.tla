------------------------------ MODULE Answers ------------------------------
(* What a life may keep of a catalog's answers: the part of Penstock.tla's `Turn` and `Arrives`   *)
(* that it takes for one step.  One table of one chain; a metadata file says how many records     *)
(* have landed; the pointer says which file counts.  Fronted: a cache stands in front of the      *)
(* catalog, and answers for it what it takes for fresh.  Stale: any state that ever was may be    *)
(* examined, and all must hold: the compare-and-set holds it.  Defences in Off are off: each      *)
(* taken away breaks an invariant.  Read Look, Send, Write, Arrives, Lies.                        *)
EXTENDS Integers, FiniteSets
CONSTANTS
  Lives,       \* who lands, each at any moment, a zombie among them
  N,           \* records to land, one in each commit
  Files,       \* metadata files 1 .. Files that may be written
  Fronted,     \* TRUE: a cache in front of the catalog; states are told by their ETags
  Stale,       \* TRUE: what is examined may be of any age
  Faults, MaxFaults, Off
VARIABLES
  file,    \* metadata file -> [offs, on, is]: what it says, of which it was made, is it there
  ptr,     \* the file that counts
  was,     \* all files that ever counted
  net,     \* requests on their way: [from, to]; they arrive late, never, or twice
  front,   \* the files that the cache vouches for: as far behind as it likes
  life,    \* life -> [ph, at, to]: examined the file `at`; wants it to be `to`
  told,    \* how much was settled as landed
  struck, broken
vars == <<file, ptr, was, net, front, life, told, struck, broken>>
On(d) == d \notin Off
Max(a, b) == IF a > b THEN a ELSE b
Strike(name) == name \in Faults /\ struck < MaxFaults
Struck1 == struck' = struck + 1
Nothing == [offs |-> -1, on |-> 0, is |-> FALSE]
First == [offs |-> 0, on |-> 0, is |-> TRUE]
Init == /\ file = [i \in 1 .. Files |-> IF i = 1 THEN First ELSE Nothing]
        /\ ptr = 1 /\ was = {1} /\ net = {} /\ front = {1}
        /\ life = [c \in Lives |-> [ph |-> "look", at |-> 1, to |-> 1]]
        /\ told = 0 /\ struck = 0 /\ broken = {}
Next1(c, ph) == life' = [life EXCEPT ![c].ph = ph]
(* A turn begins: what is examined is what the catalog says now.  With a cache in front a life    *)
(* asks whether a state has changed that it knows by its ETag: the one it examined, never the one *)
(* that the answer to its own commit named.  "Not changed" then means what it knew.               *)
Asked(c) == IF On("ETag of the commit believed") THEN life[c].at ELSE life[c].to
Seen(c) == {ptr} \union (IF Fronted /\ Asked(c) \in front THEN {Asked(c)} ELSE {})
                 \union (IF Stale THEN was ELSE {})
Sees(c, i) ==
  /\ told' = Max(told, file[i].offs)   \* what it finds there is settled
  /\ life' = [life EXCEPT ![c] = [ph |-> IF file[i].offs < N THEN "ready" ELSE "look",
                                  at |-> i, to |-> i]]
Look(c) == /\ life[c].ph = "look" /\ \E i \in Seen(c) : Sees(c, i) /\ front' = front \union {i}
           /\ UNCHANGED <<file, ptr, was, net, struck, broken>>
Believe(c) ==   \* what it was told is kept, and the pointer is not read again
  /\ ~On("pointer read back") /\ life[c].ph = "answered" /\ Sees(c, life[c].to)
  /\ UNCHANGED <<file, ptr, was, net, front, struck, broken>>
(* The files of a commit are made, written side by side, and then the request is sent.            *)
Free == {i \in 1 .. Files : file[i] = Nothing}
Make(c) == /\ life[c].ph = "ready" /\ Free # {}
           /\ \E i \in {CHOOSE i \in Free : \A j \in Free : i <= j} :
                /\ file' = [file EXCEPT ![i] = [offs |-> file[life[c].at].offs + 1,
                                                on |-> life[c].at, is |-> FALSE]]
                /\ life' = [life EXCEPT ![c].to = i, ![c].ph = "made"]
           /\ UNCHANGED <<ptr, was, net, front, told, struck, broken>>
Write(c) == /\ life[c].ph \in {"made", "sent"} /\ ~file[life[c].to].is
            /\ file' = [file EXCEPT ![life[c].to].is = TRUE]
            /\ UNCHANGED <<ptr, was, net, front, life, told, struck, broken>>
Send(c) == /\ life[c].ph = "made" /\ (On("written first") => file[life[c].to].is)
           /\ net' = net \union {[from |-> life[c].at, to |-> life[c].to]} /\ Next1(c, "sent")
           /\ UNCHANGED <<file, ptr, was, front, told, struck, broken>>
(* The catalog: a request moves the pointer from the file that it was made of, or does nothing.   *)
Waits(m) == {c \in Lives : life[c].ph = "sent" /\ life[c].to = m.to}
Heard(m, ph) == life' = [c \in Lives |-> IF c \in Waits(m) THEN [life[c] EXCEPT !.ph = ph]
                                         ELSE life[c]]
Arrives == \E m \in net :
  /\ m.to # ptr /\ (m.from = ptr \/ ~On("pointer compared"))
  /\ ptr' = m.to /\ was' = was \union {m.to} /\ Heard(m, "answered")
  /\ front' = IF Fronted THEN front \union {m.to} ELSE front
  /\ broken' = broken \union (IF file[m.to].offs # file[ptr].offs + 1 THEN {"I1"} ELSE {})
                      \union (IF file[m.to].is THEN {} ELSE {"I6"})
  /\ UNCHANGED <<file, net, told, struck>>
Refused == \E m \in net : /\ m.from # ptr /\ Waits(m) # {} /\ Heard(m, "look")
                          /\ UNCHANGED <<file, ptr, was, net, front, told, struck, broken>>
NoAnswer(c) == /\ life[c].ph = "sent" /\ Next1(c, "look")   \* in doubt: the next turn finds out
               /\ UNCHANGED <<file, ptr, was, net, front, told, struck, broken>>
Again(c) == /\ life[c].ph = "answered" /\ On("pointer read back") /\ Next1(c, "look")
            /\ UNCHANGED <<file, ptr, was, net, front, told, struck, broken>>
(* Others.  C12: OK, and nothing is applied, though the answer names what would be there, and a   *)
(* cache on its way learns it.                                                                    *)
Lies == Strike("liar") /\ \E m \in net :
  /\ Waits(m) # {} /\ Heard(m, "answered") /\ net' = net \ {m} /\ Struck1
  /\ front' = IF Fronted THEN front \union {m.to} ELSE front
  /\ UNCHANGED <<file, ptr, was, told, broken>>
Dies == /\ Strike("dies") /\ \E c \in Lives : life[c].ph # "look" /\ Next1(c, "look") /\ Struck1
        /\ UNCHANGED <<file, ptr, was, net, front, told, broken>>
Forgets == /\ Fronted /\ \E i \in front : front' = front \ {i}
           /\ UNCHANGED <<file, ptr, was, net, life, told, struck, broken>>
Next == Arrives \/ Refused \/ Lies \/ Dies \/ Forgets
        \/ \E c \in Lives : Look(c) \/ Believe(c) \/ Make(c) \/ Write(c) \/ Send(c)
                            \/ NoAnswer(c) \/ Again(c)
Spec == Init /\ [][Next]_vars
I1_NoDup == "I1" \notin broken        \* what lands is what comes next, once
I2_NoLoss == told <= file[ptr].offs   \* nothing is settled that the table does not hold
I6_FilesLive == "I6" \notin broken    \* the pointer is never at a file that is not there
=============================================================================
