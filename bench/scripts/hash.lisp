;; Calls, and a hash table: code that is compiled when it is loaded.
(defun fib (n) (if (< n 2) n (+ (fib (- n 1)) (fib (- n 2)))))
(let ((h (make-hash-table)))
  (dotimes (i 12000000) (incf (gethash (mod (* i 7919) 5003) h 0) i))
  (print (list (fib 37) (hash-table-count h))))
