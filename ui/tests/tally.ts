/** Ends a run with `failed: NAME` for each test that failed and `N passed, N failed`, which scripts/test.sh sums up. */
import type { Reporter, TestModule } from "vitest/node";

export default class Tally implements Reporter {
  onTestRunEnd(modules: readonly TestModule[]): void {
    let passed = 0;
    let failed = 0;
    for (const module of modules) {
      let any = false;
      for (const test of module.children.allTests()) {
        any = true;
        if (test.result().state === "passed") passed += 1;
        else {
          failed += 1;
          console.log(`failed: ${test.fullName}`);
        }
      }
      // A file that could not be run has no tests.
      if (!any || (module.state() === "failed" && module.errors().length > 0)) {
        failed += 1;
        console.log(`failed: ${module.moduleId}`);
      }
    }
    console.log(`${passed} passed, ${failed} failed`);
  }
}
