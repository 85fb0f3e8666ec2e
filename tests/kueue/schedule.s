// That there is an assembly file lets schedule.go declare a function without a body.
