cat > t.erl <<'END'
-module(t).
-export([main/0]).
main() ->
    Parent = self(),
    [spawn(fun() -> Parent ! lists:sum(lists:seq(1, N * 1000)) end) || N <- lists:seq(1, 50)],
    io:format("~p~n", [lists:sum([receive Sum -> Sum end || _ <- lists:seq(1, 50)])]),
    Words = [{N rem 97, integer_to_binary(N)} || N <- lists:seq(1, 20000)],
    Map = lists:foldl(fun({Key, Word}, Map) -> Map#{Key => Word} end, #{}, Words),
    io:format("~p ~p~n", [maps:size(Map), erlang:phash2(lists:sort(maps:to_list(Map)))]),
    io:format("~p~n", [catch error(oops)]),
    halt(3).
END
erlc t.erl && erl -noshell -s t main 2>/dev/null
echo $?
