from tests.fuzz.tally import tiny_threads, write_tally

tiny_threads()


def pytest_sessionfinish():
    write_tally()
