cat > t.lisp <<'END'
(let ((h (make-hash-table)))
  (dotimes (i 300000) (incf (gethash (mod i 977) h 0) i))
  (print (loop for v being the hash-values of h sum v)))
(let ((h (make-hash-table :weakness :key)))
  (dotimes (i 1000) (setf (gethash (cons i i) h) i))
  (print (hash-table-count h)))
(print (multiple-value-list (floor 17 5)))
(gc :full t)
(print (handler-case (car (eval 1)) (type-error () :not-a-list)))
(print (sb-thread:join-thread (sb-thread:make-thread (lambda () (reduce #'+ (loop for i below 1000 collect i))))))
(print (funcall (compile nil '(lambda (x) (values (* x x) x))) 12))
(exit :code 4)
END
sbcl --script t.lisp
echo $?
