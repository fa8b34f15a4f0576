! Fault: one thread initialises, all use their own block (Fortran, OpenMP).
!
! As serial_init_omp.c. Expected: first-touch names the line below with all of the array's pages; the line of the update is
! on top of `lines`, (N-1)/N of its accesses remote on N nodes; remedy: initialise in parallel.
! With FIXED it does.
module target
  use iso_c_binding
  implicit none
  interface
    subroutine tgx_start(name, mib, rounds) bind(c)
      import
      character(kind=c_char), intent(in) :: name(*)
      real(c_double), value :: mib
      integer(c_long), value :: rounds
    end subroutine
    integer(c_int) function tgx_threads() bind(c)
      import
    end function
    integer(c_long) function tgx_bytes() bind(c)
      import
    end function
    integer(c_long) function tgx_rounds() bind(c)
      import
    end function
    subroutine tgx_enter(slot, index) bind(c)
      import
      integer(c_int), value :: slot, index
    end subroutine
    integer(c_int) function tgx_array(name, base, bytes) bind(c)
      import
      character(kind=c_char), intent(in) :: name(*)
      type(c_ptr), value :: base
      integer(c_long), value :: bytes
    end function
    subroutine tgx_touched(array, slot, from, to, tag) bind(c)
      import
      integer(c_int), value :: array, slot
      integer(c_long), value :: from, to
      character(kind=c_char), intent(in) :: tag(*)
    end subroutine
    subroutine tgx_accessed(array, slot, from, to, reads, writes, seconds, tag) bind(c)
      import
      integer(c_int), value :: array, slot
      integer(c_long), value :: from, to
      real(c_double), value :: reads, writes, seconds
      character(kind=c_char), intent(in) :: tag(*)
    end subroutine
    real(c_double) function tgx_seconds() bind(c)
      import
    end function
    subroutine tgx_finish() bind(c)
      import
    end subroutine
  end interface
end module

program serial_init_fortran
  use iso_c_binding
  use omp_lib
  use target
  implicit none
  real(c_double), allocatable, target :: a(:)
  integer(c_long) :: n, i, round, rounds, block
  integer(c_int) :: me, array
  real(c_double) :: start, accesses, total

  call tgx_start("serial_init_fortran" // c_null_char, 64d0, 100_c_long)
  call omp_set_dynamic(.false.)
  call omp_set_num_threads(tgx_threads())
  call tgx_enter(0, 0)
  n = tgx_bytes() / 8
  rounds = tgx_rounds()
  block = n / tgx_threads()
  allocate(a(n)) ! EXPECT object
  array = tgx_array("a" // c_null_char, c_loc(a), n * 8)
  start = tgx_seconds()
#ifdef FIXED
  !$omp parallel do schedule(static)
#endif
  do i = 1, n
    a(i) = dble(mod(i, 1024_c_long)) ! EXPECT first-touch
  end do
  call tgx_accessed(array, 0, 0_c_long, n * 8, 0d0, dble(n), tgx_seconds() - start, "first-touch" // c_null_char)
  call tgx_touched(array, 0, 0_c_long, n * 8, "first-touch" // c_null_char)

  !$omp parallel private(me, start, round, i, accesses)
  me = omp_get_thread_num()
  if (me > 0) call tgx_enter(me, me)
  start = tgx_seconds()
  do round = 1, rounds
    !$omp do schedule(static)
    do i = 1, n
      a(i) = a(i) * 0.5d0 + 1d0 ! EXPECT remote
    end do
    !$omp end do nowait
  end do
  accesses = dble(rounds) * dble(block)
  call tgx_accessed(array, me, me * block * 8, (me + 1) * block * 8, accesses, accesses, tgx_seconds() - start, &
                    "remote" // c_null_char)
  !$omp end parallel

  total = 0
  do i = 1, n, 512
    total = total + a(i)
  end do
  write (*, '(a,f0.3)') "serial_init_fortran: ", total
  call tgx_finish()
  deallocate(a)
end program
