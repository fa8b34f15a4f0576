! A block of 7777 bytes, of a recursive subroutine.
program unwound
   implicit none
   call step_again(3)
contains
   recursive subroutine step_again(depth)
      integer, intent(in) :: depth
      integer(1) :: room(depth * 100 + 1)
      room = 1
      if (depth > 0) then
         call step_again(depth - 1)
      else
         call step_leaf()
      end if
      if (sum(room) < 0) print *, room
   end subroutine
   subroutine step_leaf()
      integer(1), allocatable :: block(:)
      allocate (block(7777))
      block = 1
      if (sum(block) < 0) print *, block
   end subroutine
end program
